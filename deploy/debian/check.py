"""The life of a package in a clean system: installed, used, upgraded, removed, purged.

Each part yields the facts that it checked, and fails at the first wrong one. A real cloud answers
on loopback.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.live.testbed import Cloud
from deploy.debian.machine import Machine
from deploy.debian.service import ByHand, Service, answers
from sottovoce.edge.cli.service import ACCOUNT, NAME, system_unit
from sottovoce.edge.config import MACHINE

Rows = Iterator[tuple[str, str]]
SAID: Final = "Anna sees Dr Okafor in the clinic on Monday, 4711"
NOT_CHECKED: Final = "not checked"
"""What a row begins with that has seen nothing."""
_STATE: Final = Path("/var/lib/sottovoce")
_USER: Final = ACCOUNT
_OF_TOOLS: Final = (
    *("/var/lib/dpkg", "/var/lib/systemd", "/var/cache", "/var/log", "/var/tmp"),  # noqa: S108
    *("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow", "/etc/subuid", "/etc/subgid"),
)
_PARTS: Final = """
from importlib import import_module, metadata
from packaging.requirements import Requirement
left_out = {left_out!r}
for part in metadata.distributions():
    for asked in map(Requirement, part.requires or ()):
        if asked.name in left_out or asked.marker and not asked.marker.evaluate(dict(extra="")):
            continue
        there = metadata.version(asked.name)
        assert asked.specifier.contains(there, prereleases=True), (str(asked), there)
for name in "numpy onnxruntime tokenizers safetensors cryptography.x509 grpc rich h11".split():
    import_module(name)
print(len(list(metadata.distributions())))
"""
_COMPLETED: Final = """
source /usr/share/bash-completion/completions/sotto
COMP_WORDS=(sotto pri) COMP_CWORD=1
_sotto_completion sotto pri
echo "${COMPREPLY[@]}"
"""


@dataclass(frozen=True, slots=True)
class Packages:
    """An earlier package, and the newer one that replaces it."""

    earlier: Path
    newest: Path

    def version(self, package: Path) -> str:
        """Return a package's version, from its control file."""
        show = ["dpkg-deb", "--field", str(package), "Version"]
        return subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip()


def same_bytes(one: Path, other: Path) -> Rows:
    """Check that two builds hold the same bytes, whatever their compression."""
    sums = []
    for package in (one, other):
        whole = hashlib.sha256()
        for part in ("--ctrl-tarfile", "--fsys-tarfile"):
            whole.update(
                subprocess.run(
                    ["dpkg-deb", part, str(package)], check=True, capture_output=True
                ).stdout
            )
        sums.append(whole.hexdigest())
    assert sums[0] == sums[1], f"{one} and {other} differ: see `diffoscope {one} {other}`"
    yield "built twice, wheels fetched twice", f"the same bytes, sha256 {sums[0][:16]}..."


def life(
    machine: Machine, service: Service, packages: Packages, folder: Path, bundle: Path
) -> Rows:
    """Check the whole life of a package, on a machine without it.

    Args:
        folder, bundle: of the cloud.

    Raises:
        AssertionError: a check fails; the message has the output.
    """
    before = _files(machine)
    yield from _refused(machine, packages.earlier)
    yield from _installed(machine, packages.earlier, packages.version(packages.earlier))
    service.installed()
    yield from _guarded(machine, service)
    yield from _documented(machine)
    cloud = Cloud.at(folder, bundle)
    cloud.start()
    try:
        yield from _used(machine, service, cloud.address)
    finally:
        cloud.stop()
    yield from _upgraded(machine, service, packages.newest, packages.version(packages.newest))
    yield from _removed(machine, service, packages.newest, before)


def _files(machine: Machine) -> set[str]:
    """Return every path of the system, without the notes of Debian's tools."""
    ours = machine.run("find", "/etc", "/usr", "/var", "/opt", "-xdev")
    return {path for path in ours.splitlines() if not path.startswith(_OF_TOOLS)}


def _install(machine: Machine, package: Path, how: str = "--install") -> None:
    place = machine.folder / "var/tmp" / package.name
    shutil.copyfile(package, place)
    machine.run("dpkg", how, f"/var/tmp/{package.name}")  # noqa: S108
    place.unlink()


def _refused(machine: Machine, package: Path) -> Rows:
    """Check that an installation beside another agent is refused and changes nothing."""
    unit, place = machine.root / "etc/systemd/system" / NAME, f"/var/tmp/{package.name}"  # noqa: S108
    shutil.copyfile(package, machine.folder / place[1:])
    unit.write_text(system_unit(Path("/opt/sotto"), "nobody"))
    said = machine.run("dpkg", "--install", place, code=1)
    assert "sotto service uninstall --system" in said, said
    unit.unlink()
    machine.run("install", "-d", "-o", "nobody", str(_STATE))
    said = machine.run("dpkg", "--install", place, code=1)
    assert f"{_STATE} belongs to nobody" in said, said
    machine.run("rmdir", str(_STATE))
    (machine.folder / place[1:]).unlink()
    yield "beside another agent, or its state", "refused, with what to do"


def _installed(machine: Machine, package: Path, version: str) -> Rows:
    compilers = machine.run("sh", "-c", "command -v cc gcc c++ clang pip", code=None)
    assert not compilers, f"this system is not clean: {compilers}"
    _install(machine, package)
    assert not machine.run("dpkg", "--verify", "sottovoce")
    assert machine.run("dpkg-query", "-W", "-f", "${Version} ${Status}", "sottovoce") == (
        f"{version} install ok installed"
    )
    yield "dpkg --install, no compiler, no pip", version
    yield "sotto version", machine.run("sotto", "version", user=_USER).strip()
    python = "/usr/lib/sottovoce/bin/python3"
    parts = machine.run(python, "-I", "-c", _PARTS.format(left_out=["huggingface-hub"]))
    assert not machine.run("find", "/usr/lib/sottovoce", "-path", "*/site-packages/torch")
    yield "parts of the environment", f"{parts.split()[-1]}, each has what it asks for; no torch"
    *_, home, shell = machine.run("getent", "passwd", _USER).strip().split(":")
    assert (home, shell) == (str(_STATE), "/usr/sbin/nologin")
    _closed(machine)
    yield "user, state, settings", f"{_USER}, without a shell; others may not look"


def _closed(machine: Machine) -> None:
    """Check that only the agent's user can read its folders."""
    modes = machine.run("stat", "-c", "%U:%G %a %n", str(_STATE), str(MACHINE.parent), str(MACHINE))
    who = f"{_USER}:{_USER}"
    assert modes == f"{who} 700 {_STATE}\n{who} 750 {MACHINE.parent}\n{who} 640 {MACHINE}\n", modes


def _guarded(machine: Machine, service: Service) -> Rows:
    yield from service.seen()
    if isinstance(service, ByHand):
        yield NOT_CHECKED, "emulated: systemctl, start at boot, hardening, sotto service"
        return
    (told,) = map(
        json.loads, machine.run("sotto", "service", "status", "--system", "--json").splitlines()
    )
    assert told == {
        "file": f"/usr/lib/systemd/system/{NAME}",
        "installed": True,
        "active": True,
    }
    refused = machine.run("sotto", "service", "uninstall", "--system", code=3)
    assert "belongs to a package" in refused
    yield "sotto service", "sees the package's unit, and leaves it to the package"


def _documented(machine: Machine) -> Rows:
    pages = sorted((machine.root / "usr/share/man/man1").glob("sotto*.1.gz"))
    assert len(pages) > 30, "one for each command"
    tools = []
    for tool, options in (
        ("man", ["--warnings=w", "-l"]),
        ("mandoc", ["-T", "lint", "-W", "warning"]),
    ):
        if shutil.which(tool) is None:
            continue
        tools.append(tool)
        for page in pages:
            command = [tool, *options, str(page)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            said = done.stderr + (done.stdout if tool == "mandoc" else "")
            assert (done.returncode, said) == (0, ""), f"{page.name}: {said}"
    yield (
        f"{len(pages)} manual pages",
        f"without a warning of {' and '.join(tools) or 'nobody: no man'}",
    )
    assert machine.run("bash", "-c", _COMPLETED).split() == ["privatize"]
    shells = ["bash, used"]
    scripts = {
        "zsh": "zsh/vendor-completions/_sotto",
        "fish": "fish/vendor_completions.d/sotto.fish",
    }
    for shell, script in scripts.items():
        if found := shutil.which(shell):
            subprocess.run([found, "-n", str(machine.root / "usr/share" / script)], check=True)
        shells.append(f"{shell}, {'parsed' if found else 'not checked: no such shell here'}")
    yield "completions", "; ".join(shells)


def _released(machine: Machine) -> str:
    return machine.run("sotto", "privatize", "--level", "strong", SAID, user=_USER).strip()


def _used(machine: Machine, service: Service, address: str) -> Rows:
    refused = machine.run("sotto", "pull", address, code=78)
    assert f"sudo -u {_USER} sotto" in refused, "root's files are in its folders"
    machine.run("sotto", "pull", address, user=_USER)
    yield (
        "sotto pull, from a sotto-cloud on loopback",
        f"bundle {_status(machine)['bundle_id'][:12]}",
    )
    said = _released(machine)
    assert said
    assert said != SAID
    assert "Okafor" not in said
    assert "4711" not in said
    yield "first release", said
    machine.run("sotto", "config", "set", "cloud.address", address)  # as root
    owner = machine.run("stat", "-c", "%U %a", str(MACHINE)).split()
    assert owner == [_USER, "640"], f"{MACHINE} is {owner} now"
    service.restart()
    service.process()
    yield "a setting changed by root", "the agent reads it, others do not"
    printed = machine.run("sotto", "doctor", "--json", user=_USER, code=None).splitlines()
    # Beside it onnxruntime may say that it does not know an emulated processor.
    told = json.loads(next(line for line in printed if line.startswith("{")))
    wrong = {each["check"] for each in told["checks"] if each["result"] == "FAIL"}
    assert wrong == {"tenant"}, told
    yield "sotto doctor", f"{len(told['checks'])} checks; only the account is missing, as it is"
    kept = set(machine.run("ls", "-A", str(_STATE)).split())
    assert kept == {"bundle", "state"}, f"{_STATE} holds {kept}: whose is what is not ours?"
    yield "what is kept", "state and bundle; no library has put anything of its own beside them"


def _status(machine: Machine) -> dict[str, str]:
    told: dict[str, str] = json.loads(machine.run("sotto", "status", "--json", user=_USER))
    return told


def _kept(machine: Machine) -> tuple[str, str, str]:
    """Return bundle, ledger, settings and a release, all of which must outlive packages."""
    return (
        _status(machine)["bundle_id"],
        machine.run("sha256sum", str(MACHINE)),
        _released(machine),
    )


def _upgraded(machine: Machine, service: Service, package: Path, version: str) -> Rows:
    process, kept = service.process(), _kept(machine)
    spent = machine.run("sotto", "ledger", "--json", user=_USER)
    _install(machine, package, "--unpack")
    service.unpacked()
    assert not answers(machine), "the earlier one runs on over the new one's files"
    machine.run("dpkg", "--configure", "sottovoce")
    assert machine.run("dpkg-query", "-W", "-f", "${Version}", "sottovoce") == version
    service.installed()
    assert service.process() != process, "the earlier one still runs"
    _closed(machine)
    assert machine.run("sotto", "ledger", "--json", user=_USER) == spent
    assert _kept(machine) == kept
    yield f"upgrade to {version}", "restarted; ledger, key, bundle, settings kept"


def _removed(machine: Machine, service: Service, package: Path, before: set[str]) -> Rows:
    kept = _kept(machine)
    service.leaving()
    machine.run("dpkg", "--remove", "sottovoce")
    assert not answers(machine), "the agent still runs"
    left_running = f"find /proc -maxdepth 1 -user {_USER} -name '[0-9]*' 2>/dev/null || true"
    assert not machine.run("sh", "-c", left_running), "a process of its user is left"
    left = _files(machine) - before
    assert all(
        path.startswith((str(_STATE), str(MACHINE.parent), "/etc/systemd")) for path in left
    ), left
    yield "dpkg --remove", "stopped; state and settings are left, nothing else"
    _install(machine, package)
    service.installed()
    assert _kept(machine) == kept
    yield "installed again", "as it was"
    service.leaving()
    machine.run("dpkg", "--purge", "sottovoce")
    left = _files(machine) - before
    assert not left, left
    assert not machine.run("find", "/", "-xdev", "-user", _USER)
    yield "dpkg --purge", "nothing is left but the user, without a shell"


ON_PURPOSE: Final = frozenset(
    [
        # Wheels are packaged as their makers built them: whoever compares hashes finds them.
        "embedded-library",
        "library-not-linked-against-libc",
        "shared-library-lacks-prerequisites",
        "unstripped-binary-or-object",
        "unusual-interpreter",
        # Its programs run on the virtual environment's Python.
        "wrong-path-for-interpreter",
        # Whoever packages it for others says who they are: DEBEMAIL.
        "bogus-mail-host",
        "bogus-mail-host-in-debian-changelog",
        "root-in-contact",
    ]
)
"""Errors and warnings that stay, and why."""


def linted(package: Path) -> Iterator[tuple[str, str]]:
    """Run lintian on a package, if it is installed.

    Raises:
        AssertionError: lintian found an unexpected fault.
    """
    if shutil.which("lintian") is None:
        yield "lintian", "not here: apt-get install lintian"
        return
    options = ["--allow-root", "--fail-on", "none", "--tag-display-limit", "0"]
    done = subprocess.run(
        ["lintian", *options, str(package)], check=True, capture_output=True, text=True
    )
    wrong = unexpected(done.stdout)
    assert not wrong, "lintian: " + "\n".join(wrong)
    yield "lintian", "no error or warning but those on purpose"


def unexpected(said: str) -> list[str]:
    """Return the lines about unexpected errors and warnings."""
    lines = (re.match(r"[EW]: \S+: (\S+)", line) for line in said.splitlines())
    return [found.string for found in lines if found and found[1] not in ON_PURPOSE]
