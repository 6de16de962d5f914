"""A clean Debian system that boots on this one: its own processes, files and users, systemd first.

Only a clean system shows whether a package installs, starts and leaves without a trace. The system
shares the kernel as a container does, and the network of its starter.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.debian.target import Target

_BOOT: Final = Path(__file__).with_name("boot.sh")
_SYSTEMD: Final = "/usr/lib/systemd/systemd"
_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"
_ASKED: Final = ("python3", "adduser", "libstdc++6", "systemd", "systemd-sysv", "dbus")
"""What the package depends on, and what boots."""
_INTO: Final = 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"'
_SECONDS: Final = 300.0


class Unfit(Exception):
    """This machine lacks something that a check needs; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A running system; ``first`` is its process 1, seen from here."""

    folder: Path
    first: int

    @property
    def root(self) -> Path:
        """The machine's files, mounts included."""
        return Path(f"/proc/{self.first}/root")

    def run(self, *command: str, user: str = "", code: int | None = 0) -> str:
        """Run a command there, by default as root, and return the text of both outputs.

        Args:
            code: the expected exit status; None for any.

        Raises:
            AssertionError: another exit status.
        """
        done = subprocess.run(
            self._there(command, user),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if code is not None and done.returncode != code:
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command there as root, without waiting; its output is in `log`."""
        with self.log.open("ab") as log:
            there = self._there(command, "")
            return subprocess.Popen(there, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def log(self) -> Path:
        """Return the output of the command that `start` began."""
        return self.folder / "started.log"

    def _there(self, command: tuple[str, ...], user: str) -> list[str]:
        enter = ["nsenter", "--target", str(self.first)]
        enter += ["--mount", "--pid", "--cgroup", "--ipc", "--uts", "--root", "--wd"]
        clean = ["env", "-i", f"PATH={_PATH}", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"]
        home = f"HOME={'/var/lib/sottovoce' if user else '/root'}"
        become = ["runuser", "-u", user, "--"] if user else []
        return [*enter, *clean, home, *become, *command]


def system(target: Target, cache: Path) -> Path:
    """Return an archive of a clean system of the target's kind, made once, from Debian's packages.

    Raises:
        Unfit: mmdebstrap is not here, or there are no user's rights to make one.
    """
    archive = cache / f"system-{target.suite}-{target.architecture}.tar"
    if archive.exists():
        return archive
    if os.geteuid() != 0:
        raise Unfit("a system of its own takes root: run it as root, or by sudo")
    cache.mkdir(parents=True, exist_ok=True)
    aside = archive.with_suffix(".part.tar")
    options = ["--variant=minbase", f"--architectures={target.architecture}"]
    options += ["--skip=check/qemu", f"--include={','.join(_ASKED)}"]
    _mmdebstrap(*options, target.suite, str(aside))
    aside.rename(archive)
    return archive


def _mmdebstrap(*arguments: str) -> None:
    if shutil.which("mmdebstrap") is None:
        raise Unfit("mmdebstrap is not here: apt-get install mmdebstrap")
    subprocess.run(["mmdebstrap", "--quiet", *arguments], check=True)


@contextmanager
def running(archive: Path, *, boots: bool = True) -> Iterator[Machine]:
    """Boot a machine from a system's archive, and delete it afterwards.

    Args:
        boots: whether systemd starts; otherwise nothing runs by itself.

    Raises:
        Unfit: the machine did not start.
    """
    group = group_here()
    if group is None:
        raise Unfit("no groups of processes, version 2: mount -t cgroup2 cgroup2 /sys/fs/cgroup")
    with ExitStack() as left:
        folder = left.enter_context(
            tempfile.TemporaryDirectory(prefix="check-deb-", ignore_cleanup_errors=True)
        )
        own = left.enter_context(own_group(group))
        subprocess.run(["tar", "-xf", str(archive), "-C", folder], check=True)
        apart = ["--mount", "--pid", "--cgroup", "--ipc", "--uts", "--fork", "--kill-child"]
        first = [_SYSTEMD, "--log-target=null"] if boots else ["sleep", "infinity"]
        # Whatever ends this process ends it as well.
        command = ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _INTO, "sh", str(own)]
        command += ["unshare", *apart, str(_BOOT), folder, *first]
        boot = subprocess.Popen(command, start_new_session=True)
        try:
            machine = Machine(Path(folder), _child(boot))
            # Its top group must hold no process for systemd to share anything out below.
            (group / "cgroup.procs").write_text(f"{boot.pid}")
            _wait_for_boot(machine, boot, "running" if boots else "offline")
            yield machine
        finally:
            boot.send_signal(signal.SIGKILL)  # and with it process 1, and with that all others
            boot.wait()


def _child(boot: subprocess.Popen[bytes]) -> int:
    """The first process of the namespace that `boot` makes."""
    listed = Path(f"/proc/{boot.pid}/task/{boot.pid}/children")
    deadline = time.monotonic() + _SECONDS
    while not (found := listed.read_text().split()):
        if boot.poll() is not None or time.monotonic() > deadline:
            raise Unfit("no namespaces can be made here: run it as root of a machine of your own")
        time.sleep(0.01)
    return int(found[0])


def _wait_for_boot(machine: Machine, boot: subprocess.Popen[bytes], wanted: str) -> None:
    deadline = time.monotonic() + _SECONDS
    asked = ("systemctl", "is-system-running")
    while (
        (state := machine.run(*asked, code=None).strip()) != wanted
        or not machine.root.samefile(machine.folder)  # it has not left this system's files yet
    ):
        if boot.poll() is not None or time.monotonic() > deadline or state == "degraded":
            failed = machine.run("systemctl", "--failed", "--no-pager", code=None)
            raise Unfit(f"the system of the check did not come up ({state}): {failed}")
        time.sleep(0.2)


_KERNEL: Final = Path("/proc/sys/fs/binfmt_misc")
_NAME: Final = "sottovoce-check"
# An ELF file of 64 bits for aarch64, whatever its system's number and kind: as Debian's own entry.
_ELF: Final = (
    r"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
)


@contextmanager
def emulated(target: Target, cache: Path) -> Iterator[str]:
    """Let programs for `target` run on this machine; yield the emulator's path.

    Raises:
        Unfit: they cannot.
    """
    if platform.machine() == target.machine:
        yield "this processor"
        return
    if target.machine != "aarch64":
        raise Unfit(f"nothing here runs programs for {target.machine}: check it on such a machine")
    qemu = _qemu(cache)
    mounted = not (_KERNEL / "register").exists()
    if mounted:
        mount = ["mount", "-t", "binfmt_misc", "binfmt_misc", str(_KERNEL)]
        if subprocess.run(mount, check=False).returncode:
            raise Unfit("this kernel has no binfmt_misc: load its module, as root")
    ours = _KERNEL / f"{_NAME}-{os.getpid()}"  # another check may run beside this one
    try:
        _forget_the_dead()
        entry = ":".join(("", ours.name, "M", "", *_ELF, str(qemu), "POCF"))
        (_KERNEL / "register").write_text(entry)
        about = subprocess.run([qemu, "--version"], check=True, capture_output=True, text=True)
        yield about.stdout.splitlines()[0]
    finally:
        _forget(ours)
        others = [path for path in _KERNEL.iterdir() if path.name not in ("register", "status")]
        if mounted and not others:
            subprocess.run(["umount", str(_KERNEL)], check=False)


def _forget(entry: Path) -> None:
    if entry.exists():
        entry.write_text("-1")


def _forget_the_dead() -> None:
    """Delete entries of killed checks."""
    for entry in _KERNEL.glob(f"{_NAME}-*"):
        if not Path("/proc", entry.name.rpartition("-")[2]).exists():
            _forget(entry)


def _qemu(cache: Path) -> Path:
    """Return QEMU's program for aarch64, fetched once."""
    program = cache / "qemu-aarch64"
    if not program.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            options = ["--variant=extract", "--include=qemu-user"]
            _mmdebstrap(*options, "trixie", f"{folder}/root")
            os.replace(f"{folder}/root/usr/bin/qemu-aarch64", program)
    return program


_GROUP_SECONDS: Final = 60.0


def group_here() -> Path | None:
    """Return the folder of this process's control group; None without cgroups version 2."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            (name,) = (
                line.removeprefix("0::/")
                for line in Path("/proc/self/cgroup").read_text().splitlines()
                if line.startswith("0::/")
            )
            return Path(mount.split()[4], name)
    return None


@contextmanager
def own_group(parent: Path) -> Iterator[Path]:
    """Make a control group below another one, and delete it afterwards with its own groups.

    Its processes must be about to end by then.
    """
    folder = parent / f"check-deb-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        deadline = time.monotonic() + _GROUP_SECONDS
        events = folder / "cgroup.events"
        while "populated 1" in events.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        for name, _, _ in os.walk(folder, topdown=False):
            os.rmdir(name)
