"""Checks that a command acts for the right user and calls the right agent.

If root wrote files into another user's state, that user's agent could not read or replace them.
That user could also place links there, and root would follow them. And if another user put a socket
in the agent's place, that user would receive the text and the owner's token.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc.address import socket_path
from sottovoce.edge.config import MACHINE, Config
from sottovoce.edge.state.database import DATABASE

__all__ = ["not_a_strangers", "not_as_root"]


def not_as_root(config: Config) -> None:
    """Refuse to let root write into the state of another user's agent.

    Raises:
        ConfigError: the user is root, and the agent belongs to another user.
    """
    user = _user(config) if os.geteuid() == 0 else 0
    if user:
        name = _name(user)
        raise ConfigError(
            f"the agent's state in {config.agent.state} is of the user {name}, who could not read "
            "what root leaves there",
            fix=f"type it as that user: sudo -u {name} sotto ...",
            subject="agent.state",
        )


def not_a_strangers(config: Config) -> None:
    """Refuse a unix socket unless this user, root or the state's owner owns it.

    Raises:
        ConfigError: the socket belongs to another user.
    """
    path = socket_path(config.agent.listen)
    if path is None:
        return
    ours = {os.geteuid(), 0}
    with suppress(OSError):  # no state, so no owner
        ours.add(config.agent.state.lstat().st_uid)
    with suppress(FileNotFoundError):  # the agent has just ended
        if (owner := path.stat().st_uid) not in ours:
            raise ConfigError(
                f"{path} is of the user {_name(owner)}, and not the agent's",
                fix="find out who that is; then set agent.listen to a socket in a folder that only "
                "you can write",
                subject="agent.listen",
            )


def _user(config: Config) -> int:
    """Return the id of the user that runs the agent: the owner of its database.

    Without a database, it is the owner of the nearest existing folder above, if the settings are
    the machine's. Otherwise it is 0, so that root may decide, as in a container.
    """
    state = config.agent.state
    places = [state, *state.parents] if config.source == MACHINE else []
    for place in (state / DATABASE, *places):
        try:
            return place.lstat().st_uid
        except FileNotFoundError:
            continue
    return 0


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:  # a number without a name, as in containers
        return f"#{user}"
