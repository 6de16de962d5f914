"""Atomic writes: a crash or a full disk leaves either the old state or the new one.

State, bundles and command output all follow the same three rules. Files have private modes. They
are written aside and renamed. An error of the disk names its fix.

The files of a SQLite database are checked for replacement. POSIX drops all locks that a process
holds on a file when the process closes any descriptor of that file. A process that opens and closes
its own database therefore loses SQLite's locks. The next program to close the database takes itself
for the last user and deletes the write-ahead log. The first process goes on writing to the deleted
file, and loses those writes when it ends.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import pwd
import re
import secrets
import shutil
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from sottovoce.core.errors import (
    ConfigError,
    DataLoss,
    NotReady,
    QuotaExceeded,
    Remedy,
    SottovoceError,
    Unavailable,
)

if TYPE_CHECKING:
    import sqlite3

_ASIDE: Final = re.compile(r"\.(.+)\.sotto-[0-9a-f]{16}", re.DOTALL)
_LONGEST: Final = 255 - len("..sotto-") - 16
"""Bytes that file systems leave for the name beside our additions; a longer name is cut to them."""
_OLD_SECONDS: Final = 3600.0
_LONGEST_SECRET: Final = 64 << 10


def toml_place(error: Exception) -> str:
    """Return where a TOML parser failed, as " (at line 1, column 3)"; "" if it does not say.

    The rest of the parser's message may quote the file, which can hold a password.

    >>> import tomllib
    >>> try:
    ...     tomllib.loads("[[[")
    ... except tomllib.TOMLDecodeError as error:
    ...     toml_place(error)
    ' (at line 1, column 3)'
    """
    found = re.search(r" \(at (line \d+, column \d+|end of document)\)$", str(error))
    return found[0] if found else ""


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
    """Remove the temporary files and links that dead processes left in ``folder``.

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


DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_REFUSED: Final = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EEXIST,
)


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turn the operating system's errors around `path` into errors that name the fix.

    Raises:
        QuotaExceeded: the disk or the user's quota is full (subject "disk").
        ConfigError: no permission, a read-only file system, or a file where a folder belongs, or
            the other way round.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise QuotaExceeded(
                f"the disk is full at {path}", fix="free some space, then try again", subject="disk"
            ) from error
        if error.errno in _REFUSED:
            raise ConfigError(
                f"cannot write {path}: {os.strerror(error.errno)}",
                fix=Remedy.OTHER_PLACE,
                subject=str(path),
            ) from error
        raise


def refused_by_system(error: OSError) -> SottovoceError:
    """Return an error for a file or disk that the system refuses, where no code said more."""
    if error.errno in DISK_FULL:
        return QuotaExceeded("the disk is full", fix="free space, then run it again")
    return NotReady(
        f"cannot use {error.filename}: {error.strerror}",
        fix="name another place, or let this user read and write there",
    )


def private_folder(path: Path) -> Path:
    """Make `path` with mode 0700, or accept it if no other user can write to it.

    Raises:
        ConfigError: others may write there, or it cannot be made.
    """
    with disk(path):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat().st_mode
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"other users can write to {path}",
            fix="choose a folder of your own, or `chmod 700` it if it is",
            subject=str(path),
        )
    return path


def open_to_others(path: Path) -> bool:
    """Return whether other users can read or write `path`.

    The group may read a file that belongs to root and not to this user. Kubernetes, for one, passes
    secrets to a service in this way.
    """
    return _is_open(path.stat())


def _is_open(status: os.stat_result) -> bool:
    handed = status.st_uid == 0 != os.geteuid()
    return bool(status.st_mode & (0o037 if handed else 0o077))


def read_secret(
    path: Path, what: str = "the key", *, fix: str = "", subject: str = "", own: bool = False
) -> bytes:
    """Return the content of a file that no other user can read, at most its first 64 KiB.

    The same open file is checked and read, so it cannot be exchanged in between.

    Args:
        what: a description, for errors.
        fix: what to do if others can read it; by default "chmod 600".
        subject: of errors; by default the path.
        own: accept neither a link nor a file of root that the group may read.

    Raises:
        ConfigError: other users can read it.
        OSError: it cannot be read.
    """
    more = os.O_NOFOLLOW if own else 0
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | more)) as file:
        status = os.fstat(file.fileno())
        if _is_open(status) or (own and status.st_mode & 0o077):
            raise ConfigError(
                f"other users can read {what} {path}",
                fix=fix or f"chmod 600 {path}",
                subject=subject or str(path),
            )
        return file.read(_LONGEST_SECRET)


def sync_folder(path: Path) -> None:
    """Make renames and new names in a folder survive a power cut."""
    _sync(path)


@contextmanager
def in_place_of(path: Path, *, once: bool = False, alone: bool = True) -> Iterator[Path]:
    """Yield a free name beside `path`; the caller's new file replaces `path` when the block ends.

    The caller may write a file, a folder or a link there. A power cut leaves the complete old file
    or the complete new file: the content reaches the disk before the new name does, and the name
    before this returns. A folder replaces only an empty folder, or none.

    After an exception `path` is as before and nothing is left. A killed process may leave its
    temporary file. The next writer here, or `sweep`, removes the file once it is an hour old; a
    folder stays.

    Args:
        once: a file only, and it replaces no other. If several are written at once, or by a
            process that was suspended meanwhile, the first one stays. Needs hard links.
        alone: no other machine writes to this folder, see `name_aside`.
    """
    with name_aside(path, alone=alone) as aside:
        yield aside
        if not aside.is_symlink():
            sync_tree(aside)
        if once:
            with suppress(FileExistsError):
                os.link(aside, path)
        else:
            os.replace(aside, path)
        sync_folder(path.parent)


def sync_tree(path: Path) -> None:
    """Make a file, or a whole folder, survive a power cut; files before folders that name them."""
    if path.is_dir():
        for inner in path.iterdir():
            sync_tree(inner)
    _sync(path)


@contextmanager
def atomic(path: Path, *, once: bool = False) -> Iterator[BinaryIO]:
    """Yield a file to write, which replaces `path` when the block ends without an exception.

    With ``once``, it replaces no other file, see `in_place_of`. Its mode is 0600, because its
    content may be private. After an exception `path` is as before.

    Raises:
        ConfigError, QuotaExceeded: see `disk`; or its folder is missing, or `path` is a folder.
    """
    if path.is_dir() or not path.parent.exists():
        raise ConfigError(
            f"cannot write {path}: " + ("it is a folder" if path.is_dir() else "no such folder"),
            fix="name a file in a folder that exists",
            subject=str(path),
        )
    with disk(path), in_place_of(path, once=once) as aside:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            yield file


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def as_owner_of(path: Path) -> Iterator[None]:
    """Act as the owner of the folder that `path` lies in, if this process is root.

    A new file then belongs to that user, and links lead no further than the user may go. Nothing
    changes for other users, and for root's own folders. It holds for the whole process, so it is
    for commands, not for servers.

    Args:
        path: of a file, which need not exist.

    Raises:
        ConfigError: the process cannot become that user.
    """
    status = _first_of_another(path.absolute()) if os.geteuid() == 0 else None
    if status is None:
        yield
        return
    try:
        group = pwd.getpwuid(status.st_uid).pw_gid
    except KeyError:  # a number without a name, as in containers
        group = status.st_gid
    groups, own = os.getgroups(), os.getegid()
    try:
        try:
            os.setgroups([group])
            os.setegid(group)
            os.seteuid(status.st_uid)
        except OSError as error:
            raise ConfigError(
                f"{path} lies in a folder of user {status.st_uid}, and cannot be changed as them",
                fix="run it as that user",
                subject=str(path),
            ) from error
        yield
    finally:
        os.seteuid(0)
        os.setegid(own)
        os.setgroups(groups)


def _first_of_another(path: Path) -> os.stat_result | None:
    """Return the topmost folder above `path` that isn't root's: its owner controls all below it."""
    for folder in reversed(path.parents):
        try:
            status = folder.stat()
        except FileNotFoundError:
            return None
        if status.st_uid != 0:
            return status
    return None


@contextmanager
def full_disk_is_unavailable() -> Iterator[None]:
    """Translate errors of a full disk in a block that writes files of the cloud.

    A full disk is a passing problem of the machine. A job that meets one must wait, not fail.

    Raises:
        Unavailable: the disk is full; replaces the error of Python or safetensors.
    """
    try:
        yield
    except Exception as error:
        if _number(error) not in DISK_FULL:
            raise
        raise Unavailable(
            "the cloud's disk is full", fix="ask the provider to make room; it then goes on"
        ) from error


def _number(error: Exception) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    # By class name, so that the state code need not import safetensors. Its error has only a text.
    told = type(error).__name__ == "SafetensorError"
    found = re.search(r"os error ([0-9]+)", str(error)) if told else None
    return int(found[1]) if found else None


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
    """Database, write-ahead log and index of the log, as this process has them open."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._used: dict[str, tuple[int, int] | None] = {}

    def note(self) -> None:
        """Remember which files are in use; to be called once a connection in WAL mode has read."""
        names = (f"{self._path}{suffix}" for suffix in _SUFFIXES)
        self._used = {name: _identity(name) for name in names}

    def check(self) -> None:
        """Compare the files in the folder with those in use, by their names alone: opens none.

        SQLite neither deletes nor replaces these files while a connection holds its locks.

        Raises:
            DataLoss: a file was removed or replaced. So this process reads old data, and its writes
                would be lost.
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
