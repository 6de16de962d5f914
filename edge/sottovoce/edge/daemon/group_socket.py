"""A socket that a group of the machine's users may open.

Why it is here: apps that run as other users must reach the socket and nothing else of the agent's.
It is opened for its owner alone, and to the group once it is the group's, so that no other group
has it meanwhile; and a folder on the way that would keep the group out is named, not changed.
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
        ConfigError: it is the state's, or the group cannot pass a folder on the way.
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
    for each in (folder, *folder.resolve().parents):
        found = each.stat()
        open_to = found.st_mode & stat.S_IXOTH
        if not open_to and not (found.st_mode & stat.S_IXGRP and found.st_gid == number):
            name = grp.getgrgid(number).gr_name
            raise ConfigError(
                f"the group {name} cannot pass {each}, on the way to the socket",
                fix=f"`chgrp {name} {each} && chmod g+x {each}`, or set agent.listen to a socket "
                "in another folder",
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
