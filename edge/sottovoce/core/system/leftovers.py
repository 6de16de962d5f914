"""Names beside a file to write under, and the removal of those that a killed process left.

Why it is here: who is killed between writing aside and the rename leaves a file that may hold a
secret, and that nobody knows of. Whoever writes aside holds a shared lock on the folder, which goes
with the process however that ends; so a file of that form in a folder that nobody holds is
nobody's.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import Final

__all__ = ["discard", "name_aside", "sweep"]

_ASIDE: Final = re.compile(r"\.(.+)\.[0-9a-f]{8}", re.DOTALL)
_TRIES, _PAUSE = 100, 0.02
"""Who looks for leftovers holds a folder for as long as it takes to list it. Whoever else holds one
is none of ours (others can lock what they can read), and is waited for no longer than this."""


@contextmanager
def name_aside(path: Path, *, alone: bool) -> Iterator[Path]:
    """A free name beside ``path``, whose folder is held meanwhile; gone when the block ends.

    Args:
        alone: no other machine writes here, so what was left of this very name is removed first.
            Over a network a lock may be unknown to others.
    """
    if alone:
        sweep(path.parent, escape(path.name))
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        for _ in range(_TRIES):
            if _locked(folder, fcntl.LOCK_SH):
                break
            time.sleep(_PAUSE)
        yield aside
    finally:
        discard(aside)
        os.close(folder)


def sweep(folder: Path, names: str = "*") -> None:
    """Removes what was being written to ``folder`` by processes that are dead.

    Where somebody is writing now, or the folder cannot be locked or changed, it waits for the next
    time. Names of another form stay.

    Args:
        folder: of this machine alone.
        names: of the files that were to be, as shells match them.
    """
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            left = os.listdir(held) if _locked(held, fcntl.LOCK_EX) else []
        finally:  # what is begun from now on has another name than those
            os.close(held)
        for name in left:
            form = _ASIDE.fullmatch(name)
            if form is not None and fnmatchcase(form[1], names):
                discard(folder / name)


def discard(path: Path) -> None:
    """Removes a file or a folder, or nothing."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _locked(folder: int, how: int) -> bool:
    """Whether it is held now; a share may lock no folders, and is taken as it is to be written."""
    try:
        fcntl.flock(folder, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return how == fcntl.LOCK_SH
    return True
