"""A socket that a group of the machine's users may open.

Why it is here: apps that run as other users must reach the socket and nothing else of the agent's.
It is opened for its owner alone, and to the group once it is the group's, so that no other group
has it meanwhile. Whoever can write a folder on the way can put a socket of his own in its place,
and would be told texts and the owner's token; such a folder, and one that would keep the group out,
is named and not changed.
"""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path

from sottovoce.core.errors import ConfigError
from sottovoce.core.system.files import disk

__all__ = ["folder_for", "give_to", "number_of"]

_SETTING = "agent.group"
_MADE_FOR_IT = (
    "set agent.listen to a socket in a folder made for it, of the agent's user, such as "
    "unix:/run/sottovoce/agent.sock, with RuntimeDirectory=sottovoce in the unit"
)


def number_of(group: str) -> int:
    """The number of a group.

    Raises:
        ConfigError: there is none of the name.
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
    """Makes the socket's folder, passable to the group; one that is there stays as it is.

    Raises:
        ConfigError: it is the state's, others could replace the socket, or the group cannot pass a
            folder on the way.
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
        # In a sticky folder others can make what is not there, and touch nothing that is.
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
    """Opens a socket to the group.

    Raises:
        ConfigError: the agent may not give it away.
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
