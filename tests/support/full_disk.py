"""A small disk in memory that can be full to the byte; mounting it takes root."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_MOUNT: Final = ("mount", "-t", "tmpfs")
_BLOCK: Final = 4_096


def no_mounts() -> str:
    """What this machine lacks for a disk in memory; empty if nothing."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run([*_MOUNT, "tmpfs", folder], check=False, capture_output=True)
        if mounted.returncode:
            return "a small disk takes root, outside an unprivileged container"
        subprocess.run(["umount", folder], check=True)
    return ""


class FullDisk:
    """A disk that has room, or none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, spare: int = 0) -> None:
        """Takes every byte there is but for ``spare``, of which whole blocks remain."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, _BLOCK):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
            file.truncate(max(0, file.tell() - spare // _BLOCK * _BLOCK))

    def free(self) -> None:
        """Gives them back."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def in_memory(folder: Path, mib: int) -> Iterator[FullDisk]:
    """A new one of ``mib`` MiB, in an empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([*_MOUNT, f"-osize={mib}m,mode=700", "tmpfs", str(folder)], check=True)
    try:
        yield FullDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
