"""Programs of another processor run here, by QEMU: the kernel is told which ones are its.

QEMU comes from Debian trixie, as its binary needs no library (that of bookworm, 7.2, crashes
onnxruntime). The kernel keeps it open, so that it is there inside any other root.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deploy.debian.machine import Unfit
from deploy.debian.target import Target

__all__ = ["emulated"]

_KERNEL: Final = Path("/proc/sys/fs/binfmt_misc")
_NAME: Final = "sottovoce-check"
# An ELF file of 64 bits for aarch64, whatever its system's number and kind: as Debian's own entry.
_ELF: Final = (
    r"\x7f\x45\x4c\x46\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
)


@contextmanager
def emulated(target: Target, cache: Path) -> Iterator[str]:
    """While it lasts, programs for `target` run on this machine; yields what runs them.

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
    """Entries of checks that were killed."""
    for entry in _KERNEL.glob(f"{_NAME}-*"):
        if not Path("/proc", entry.name.rpartition("-")[2]).exists():
            _forget(entry)


def _qemu(cache: Path) -> Path:
    """QEMU's program for aarch64, fetched once."""
    program = cache / "qemu-aarch64"
    if not program.exists():
        if shutil.which("mmdebstrap") is None:
            raise Unfit("mmdebstrap is not here: apt-get install mmdebstrap")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            options = ["--quiet", "--variant=extract", "--include=qemu-user"]
            subprocess.run(["mmdebstrap", *options, "trixie", f"{folder}/root"], check=True)
            os.replace(f"{folder}/root/usr/bin/qemu-aarch64", program)
    return program
