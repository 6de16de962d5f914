"""Puts a finished folder in the place of another, all at once.

Why it is here: devices fetch the bundle while a new one is built, and a build can be killed. They
must see the old folder or the new one, never half of either.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.platform.files import sync_folder, sync_tree

__all__ = ["replacing"]

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


@contextmanager
def replacing(out: Path, marker: str) -> Iterator[Path]:
    """An empty folder beside ``out`` that takes its place when the block ends without an error.

    What an earlier, killed run left is swept away; after an error nothing is left.

    Args:
        out: the folder to make or replace.
        marker: a file that a folder must hold to be replaced, so a mistyped path costs nothing.

    Raises:
        InvalidInput: ``out`` is something else than such a folder.
        NotReady: another process is building in the same place.
    """
    out = out.absolute()
    if out.exists() and not (out / marker).is_file() and not _is_empty_folder(out):
        raise InvalidInput(
            f"{out} exists and holds no {marker}",
            fix="name a new folder, or one that may be replaced",
            subject="out",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    partial = out.with_name(f".{out.name}.partial")
    with _only_one(out.parent):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            sync_tree(partial)
            _put_in_place(partial, out)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


@contextmanager
def _only_one(parent: Path) -> Iterator[None]:
    """Locks the folder that holds both, which leaves no lock file behind."""
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise NotReady(
            f"another process is building in {parent}", fix="wait for it to end", subject="out"
        ) from error
    finally:
        os.close(descriptor)


def _put_in_place(new: Path, out: Path) -> None:
    """Renames ``new`` to ``out``; what was there ends up under the name of ``new``."""
    if not out.exists():
        new.rename(out)
    elif not _exchange(new, out):
        old = new.with_suffix(".old")
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
        new.rename(out)
        shutil.rmtree(old)
    sync_folder(out.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two folders in one step, where the system can (Linux, most file systems)."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None:
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE) == 0)
