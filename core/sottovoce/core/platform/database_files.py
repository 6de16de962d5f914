"""The files of a SQLite database, created private and checked for replacement.

POSIX drops all locks that a process holds on a file when the process closes any descriptor of that
file. A process that opens and closes its own database therefore loses SQLite's locks. The next
program to close the database takes itself for the last user and deletes the write-ahead log. The
first process goes on writing to the deleted file, and loses those writes when it ends.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from sottovoce.core.errors import DataLoss

__all__ = ["DatabaseFiles", "make_database"]

_SUFFIXES: Final = ("", "-wal", "-shm")
_making: Final = threading.Lock()


def make_database(path: Path) -> None:
    """Make an empty file with mode 0600 for a database; a file that is there is never opened.

    SQLite itself would take the mode from the umask.

    Raises:
        OSError: the file cannot be made, or this user may not read and write it.
    """
    target = os.path.realpath(path)  # `O_EXCL` would take a dangling link for a file
    # Another thread of this process must not use the new file before its descriptor is closed.
    with _making, suppress(FileExistsError):
        os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if not os.access(target, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)


class DatabaseFiles:
    """Database, write-ahead log and index of the log, as this process has them open.

    Args:
        path: the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._used: dict[str, tuple[int, int] | None] = {}

    def note(self) -> None:
        """Remember which files are in use; to be called once a connection in WAL mode has read."""
        names = (f"{self._path}{suffix}" for suffix in _SUFFIXES)
        self._used = {name: _identity(name) for name in names}

    def check(self) -> None:
        """Compare the files in the folder with those in use, by their names alone: opens none.

        SQLite deletes or replaces none of them while a connection holds its locks.

        Raises:
            DataLoss: one was removed or replaced, so what this process reads is out of date, and
                what it writes would be lost.
        """
        for name, used in self._used.items():
            if _identity(name) != used:
                raise DataLoss(
                    f"{name} was removed or replaced while this process was using it",
                    fix="start the process again; change files of its state only while it is "
                    "stopped",
                    subject=name,
                )

    def close(self, *connections: sqlite3.Connection) -> None:
        """Close the connections to these files.

        Raises:
            DataLoss: see `check`; the connections then stay open until the process ends.
        """
        try:
            self.check()
        except DataLoss:
            # To close would write the old log into a database that others have changed, and delete
            # their log by its name. So not even the interpreter's end may do it.
            for connection in connections:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
            raise
        self._used = {}  # the last connection deletes the log
        for connection in connections:
            connection.close()


def _identity(name: str) -> tuple[int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino
