"""Folders of this machine for what is fetched, each for as long as somebody uses it.

Why it is here: who dies in between leaves files, of jobs perhaps that are deleted meanwhile. A lock
beside the folder goes with its holder however that ends; so whoever comes next knows what is
nobody's. It is a file opened to be written: a share (NFS) locks no other, and no folder.
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
    """A new folder in ``home``, for as long as the block.

    Raises:
        OSError: it cannot be made.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        held, name = tempfile.mkstemp(suffix=_LOCK, dir=home)
        lock, folder = Path(name), Path(name).with_suffix("")
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            if lock.exists():  # else `clear` was faster
                folder.mkdir(mode=0o700)
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
            os.close(held)


def clear(home: Path) -> None:
    """Removes the folders in ``home`` that nobody uses any more."""
    for lock in home.glob(f"*{_LOCK}"):
        with suppress(OSError), lock.open("r+b") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()
    for folder in home.glob("*/"):
        if not folder.with_suffix(_LOCK).exists():  # which is made before it, and goes after it
            shutil.rmtree(folder, ignore_errors=True)
