"""Root changes what another user owns as that user.

Why it is here: in a folder of theirs a user can put links in the way of every name. Who follows
them may do no more than they may.
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
    """While it lasts, root is the user in whose folder `path` lies, so that a new file is theirs,
    and links lead no further than they may go. Of who isn't root, and of root's own folders,
    nothing changes. It holds for the whole process: for commands, not for servers.

    Args:
        path: of a file, which need not be there.

    Raises:
        ConfigError: that user cannot be had.
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
    """The topmost folder that `path` lies in and that isn't root's: who owns it rules below."""
    for folder in reversed(path.parents):
        try:
            status = folder.stat()
        except FileNotFoundError:
            return None
        if status.st_uid != 0:
            return status
    return None
