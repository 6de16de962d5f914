"""Temporary folders for fetched files, each with a lock while in use.

A process that dies midway leaves files, perhaps of jobs deleted meanwhile. A lock beside the folder
ends with its holder, however that process ends. So a later process can find unused folders. The
lock is a file opened for writing: a share (NFS) locks no other files, and no folders.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["clear", "own_folder"]

_LOCK: Final = ".lock"


@contextmanager
def own_folder(home: Path) -> Iterator[Path]:
    """Yield a new folder in ``home``, for the duration of the block.

    Raises:
        OSError: it cannot be made.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        held, name = tempfile.mkstemp(suffix=_LOCK, dir=home)
        lock, folder = Path(name), Path(name).with_suffix("")
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            if lock.exists():  # else `clear` removed it first
                folder.mkdir(mode=0o700)
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
            os.close(held)


def clear(home: Path) -> None:
    """Remove the folders in ``home`` that no process uses."""
    for lock in home.glob(f"*{_LOCK}"):
        with suppress(OSError), lock.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()
    for folder in home.glob("*/"):
        if not folder.with_suffix(_LOCK).exists():  # made first, removed last
            shutil.rmtree(folder, ignore_errors=True)
