"""Lets root act as a folder's owner when it changes that folder.

A user can put links in the way of every name in their own folder. If root follows the links, it
must have no more rights than that user.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.core.errors import ConfigError

__all__ = ["as_owner_of"]


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
