"""Names beside a file to write under, and the removal of those that a killed process left.

Why it is here: who is killed between writing aside and the rename leaves a file that may hold a
secret, and that nobody knows of. Whoever writes aside holds a shared lock on the folder, which goes
with the process however that ends; so a file of that form, which nobody else gives his files, is
nobody's in a folder that nobody holds. Whoever may read a folder can keep our lock from it, so it
must be old as well; and a clock that is set at last makes a new file old, so age alone is not
enough. Names of an earlier form (eight digits at the end) may be the owner's, and stay.
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
"""Bytes of a name that file systems leave room for beside what is ours; of a longer one, as many
stand for it."""
_OLD_SECONDS: Final = 3600.0


@contextmanager
def name_aside(path: Path, *, alone: bool) -> Iterator[Path]:
    """A free name beside ``path``, whose folder is held meanwhile where it can be; gone when the
    block ends.

    Args:
        alone: no other machine writes here, so what was left of this very name is removed first,
            see `sweep`. Over a network a lock may be unknown to others.
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
    """Removes the files and links that were being written to ``folder`` by processes that are dead.

    Where somebody is writing now, or the folder cannot be locked or changed, it waits for the next
    time; so does what is younger than an hour by this machine's clock. Folders and names of another
    form stay.

    Args:
        folder: of this machine alone.
        names: of the files that were to be, as shells match them.
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
    """Removes a file or a folder, or nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _remove_old(folder: int, name: str) -> None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode) and time.time() - found.st_mtime > _OLD_SECONDS:
        os.unlink(name, dir_fd=folder)


def _locked(folder: int, how: int) -> bool:
    """Whether it is held now; others may hold it, and a share may lock no folders."""
    try:
        fcntl.flock(folder, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
