"""Folders of this machine for what is fetched, each for as long as somebody uses it.

Why it is here: who dies in between leaves files, of jobs perhaps that are deleted meanwhile. A lock
on the folder goes with its holder however that ends; so whoever comes next knows what is nobody's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["clear", "own_folder"]


@contextmanager
def own_folder(home: Path) -> Iterator[Path]:
    """A new folder in ``home``, for as long as the block.

    Raises:
        OSError: it cannot be made.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    while True:
        folder = Path(tempfile.mkdtemp(dir=home))
        with suppress(FileNotFoundError):
            held = os.open(folder, os.O_RDONLY)
            fcntl.flock(held, fcntl.LOCK_EX)
            if folder.exists():
                break
            os.close(held)  # `clear` was faster
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def clear(home: Path) -> None:
    """Removes the folders in ``home`` that nobody uses any more."""
    for folder in home.glob("*/"):
        with suppress(OSError):
            held = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(held)
