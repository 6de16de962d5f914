"""Temporary names beside a file, and the removal of those that a killed process left.

A process that is killed between the write and the rename leaves a temporary file that may hold a
secret. A writer holds a shared lock on the folder, which ends with the process however it ends. No
other program gives its files names of this form. So if the folder is unlocked, a file with this
form of name has no owner.

The file must also be old, because any user that may read the folder can keep our lock from it. Age
alone is not enough either: when a wrong clock is corrected, a new file looks old. Names of an
earlier form (eight digits at the end) may be the owner's, and stay.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Final

__all__ = ["discard", "name_aside", "sweep"]

_ASIDE: Final = re.compile(r"\.(.+)\.sotto-[0-9a-f]{16}", re.DOTALL)
_LONGEST: Final = 255 - len("..sotto-") - 16
"""Bytes that file systems leave for the name beside our additions; a longer name is cut to them."""
_OLD_SECONDS: Final = 3600.0


@contextmanager
def name_aside(path: Path, *, alone: bool) -> Iterator[Path]:
    """Yield a free name beside ``path``, and remove the file when the block ends.

    The folder is locked meanwhile, if that is possible.

    Args:
        alone: no other machine writes here, so leftovers of this very name are removed first, see
            `sweep`. Over a network, other machines may not see a lock.
    """
    name = os.fsencode(path.name)[:_LONGEST].decode(errors="ignore")
    if alone:
        sweep(path.parent, escape(name))
    aside = path.with_name(f".{name}.sotto-{secrets.token_hex(8)}")
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        _locked(folder, fcntl.LOCK_SH)
        yield aside
    finally:
        discard(aside)
        os.close(folder)


def sweep(folder: Path, names: str = "*") -> None:
    """Remove the temporary files and links in ``folder`` whose processes are dead.

    Nothing is removed while another process writes there, or if the folder cannot be locked or
    changed. Files younger than an hour by this machine's clock stay until the next time. Folders
    and names of another form stay.

    Args:
        folder: of this machine alone.
        names: final names of the files, as shell patterns.
    """
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in os.listdir(held) if _locked(held, fcntl.LOCK_EX) else []:
                form = _ASIDE.fullmatch(name)
                if form is not None and fnmatchcase(form[1], names):
                    with suppress(OSError):  # a folder, or gone meanwhile
                        _remove_old(held, name)
        finally:
            os.close(held)


def discard(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_old(folder: int, name: str) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) and time.time() - found.st_mtime > _OLD_SECONDS:
        os.unlink(name, dir_fd=folder)


def _locked(folder: int, how: int) -> bool:
    """Return whether the lock was taken.

    Another process may hold it, and a network share may lock no folders.
    """
    try:
        fcntl.flock(folder, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
