"""A small disk whose power can be cut: data that was not synced is lost.

The disk is an ext4 in a file, mounted by a loop device. The file system cuts itself off
(`EXT4_IOC_SHUTDOWN` without its log, as in file system tests): nothing more is written. The next
mount replays the journal, as after a real power cut. Both need root.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SHUTDOWN: Final = 0x8004587D
_WITHOUT_LOG: Final = 2
_OPTIONS: Final = "loop,commit=300"
"""Seconds until unsynced data is written back; a trial takes less."""


def needed() -> str:
    """Return the machine's missing requirement; empty if none."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        return "a disk of one's own takes root and loop devices"
    if shutil.which("mkfs.ext4") is None:
        return "a disk of one's own takes mkfs.ext4"
    return ""


class SmallDisk:
    """A disk, mounted in ``folder``."""

    def __init__(self, image: Path, folder: Path) -> None:
        self._image, self.folder = image, folder
        self.mount()

    def mount(self) -> None:
        """Mount the disk, and replay its journal."""
        command = ["mount", "-o", _OPTIONS, str(self._image), str(self.folder)]
        subprocess.run(command, check=True)

    def unmount(self) -> None:
        """Unmount the disk; no process may have a file open on it."""
        subprocess.run(["umount", str(self.folder)], check=True)

    def fail(self) -> None:
        """Stop all writes, with unsynced data lost."""
        opened = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(opened, _SHUTDOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(opened)

    def cut(self) -> None:
        """Cut the power and restore it; processes with files open on the disk must be dead."""
        self.fail()
        self.unmount()
        self.mount()


@contextmanager
def small_disk(folder: Path, mib: int = 256) -> Iterator[SmallDisk]:
    """Make a disk of ``mib`` MiB in ``folder``/disk."""
    image, place = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(mib << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    place.mkdir()
    disk = SmallDisk(image, place)
    try:
        yield disk
    finally:
        disk.unmount()
        image.unlink()
