"""Files and folders written so that a crash or a full disk leaves the old state or the new one.

Why it is here: state, bundles and command output all need the same three habits (private modes,
write aside and rename, name the fix when the disk refuses), and they should be spelled once.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

from sottovoce.core.errors import ConfigError, QuotaExceeded
from sottovoce.core.system.leftovers import name_aside

__all__ = [
    "atomic",
    "disk",
    "in_place_of",
    "open_to_others",
    "private_folder",
    "sync_folder",
    "sync_tree",
]

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
    """Turns the operating system's refusals around `path` into errors that name the fix.

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
                fix="choose another place in the configuration, or mend its owner and mode",
                subject=str(path),
            ) from error
        raise


def private_folder(path: Path) -> Path:
    """Makes `path` with mode 0700, or accepts it if nobody else can write to it.

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
    """Whether anyone but the owner can read or write `path`.

    The group may read what is root's and not ours: that is how a secret is handed to a service,
    by Kubernetes for one.
    """
    status = path.stat()
    handed = status.st_uid == 0 != os.geteuid()
    return bool(status.st_mode & (0o037 if handed else 0o077))


def sync_folder(path: Path) -> None:
    """Makes renames and new names in a folder survive a power cut."""
    _sync(path)


@contextmanager
def in_place_of(path: Path, *, once: bool = False, alone: bool = True) -> Iterator[Path]:
    """A free name beside `path` to write a file, a folder or a link under, which takes the place of
    `path` when the block ends without an exception.

    Args:
        once: a file only, and it takes the place of none: of several that are written at once, or
            by someone who was asleep meanwhile, the first one stays. Needs hard links.
        alone: no other machine writes to this folder, see `leftovers.name_aside`.

    A power cut leaves the old one or the new one, whole: what was written reaches the disk before
    the new name does, and the name before this returns. A folder takes the place of none, or of
    an empty one, only. After an exception `path` is as before and nothing is left; of a process
    that was killed the next one to write here, or `leftovers.sweep`, removes the file it left an
    hour ago; a folder stays.
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
    """Makes a file, or all of a folder, survive a power cut; files before folders naming them."""
    if path.is_dir():
        for inner in path.iterdir():
            sync_tree(inner)
    _sync(path)


@contextmanager
def atomic(path: Path, *, once: bool = False) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` when the block ends without an exception;
    with ``once``, of none, see `in_place_of`.

    Mode 0600, because what is written may be private; after an exception `path` is as before.

    Raises:
        ConfigError, QuotaExceeded: see `disk`; or there is no folder for it, or one in its place.
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
