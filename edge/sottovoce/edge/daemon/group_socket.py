"""A socket that a group of the machine's users may open.

Apps that run as other users must reach the socket, and no other file of the agent's. The socket is
created for its owner alone, and opened to the group only once it belongs to the group. So no other
group can open it in between.

A user who can write a folder on the path can replace the socket, and would receive texts and the
owner's token. An error names that folder, or a folder that keeps the group out. Neither is changed.
"""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

from sottovoce.core.errors import ConfigError
from sottovoce.core.platform.files import disk

__all__ = ["folder_for", "give_to", "number_of"]

_SETTING = "agent.group"
_MADE_FOR_IT = (
    "set agent.listen to a socket in a folder made for it, of the agent's user, such as "
    "unix:/run/sottovoce/agent.sock, with RuntimeDirectory=sottovoce in the unit"
)


def number_of(group: str) -> int:
    """Return the number of a group.

    Raises:
        ConfigError: there is no group of this name.
    """
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise ConfigError(
            f"there is no group {group} on this machine",
            fix=f"make it (`sudo groupadd {group}`), or set another {_SETTING}",
            subject=_SETTING,
        ) from error


def folder_for(path: Path, number: int, state: Path) -> None:
    """Create the socket's folder so that the group can pass it.

    An existing folder stays unchanged.

    Raises:
        ConfigError: the folder is the state folder, the path leads over a link, others could
            replace the socket, or the group cannot pass a folder on the path.
    """
    folder = path.parent
    if folder.resolve() == state.resolve():
        raise ConfigError(
            f"the socket lies in the state folder {state}, which is nobody else's business",
            fix="set agent.listen to a socket in a folder of its own",
            subject="agent.listen",
        )
    if not folder.exists():
        with disk(folder):
            folder.mkdir(mode=0o700, parents=True)
        _hand(folder, number, 0o710)
    if folder.absolute() != (real := folder.resolve()):
        raise ConfigError(
            f"the way to the socket, {folder}, leads over a link",
            fix=f"set agent.listen to unix:{real / path.name}",
            subject="agent.listen",
        )
    for each in (folder, *real.parents):
        found = each.stat()
        # In a sticky folder, other users can create files but not replace existing ones.
        sticky = each != folder and found.st_mode & stat.S_ISVTX
        shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky
        if shared or found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(
                f"other users could put a socket of theirs in the place of the agent's: {each} "
                + ("can be written by them" if shared else "is another user's"),
                fix=_MADE_FOR_IT,
                subject="agent.listen",
            )
        open_to = found.st_mode & stat.S_IXOTH
        if not open_to and not (found.st_mode & stat.S_IXGRP and found.st_gid == number):
            name = grp.getgrgid(number).gr_name
            raise ConfigError(
                f"the group {name} cannot pass {each}, on the way to the socket",
                fix=_MADE_FOR_IT,
                subject="agent.listen",
            )


def give_to(path: Path, number: int) -> None:
    """Open a socket to the group.

    Raises:
        ConfigError: the agent's user may not give the socket to this group.
    """
    _hand(path, number, 0o660)


def _hand(path: Path, number: int, mode: int) -> None:
    try:
        if path.stat().st_gid != number:
            os.chown(path, -1, number)
    except PermissionError as error:
        raise ConfigError(
            f"the agent's user may not give {path} to the group {grp.getgrgid(number).gr_name}",
            fix="make the agent's user a member of the group, then start the agent anew",
            subject=_SETTING,
        ) from error
    path.chmod(mode)
