"""Whose agent a command speaks for, and to.

Why it is here: what root left among the files of an agent of another user, that agent could not
read, or not replace; and links that they had put there led root on. And a socket that another user
has put where the agent's should be would be told the text, and the owner's token.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress

from sottovoce.core.errors import ConfigError
from sottovoce.core.wire.address import socket_path
from sottovoce.edge.config import MACHINE, Config
from sottovoce.edge.state.database import DATABASE

__all__ = ["not_a_strangers", "not_as_root"]


def not_as_root(config: Config) -> None:
    """Refuses to have root write where another user's agent keeps its state.

    Raises:
        ConfigError: it is root who asks, and not root's agent.
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
    """Refuses a unix socket that is neither ours, nor root's, nor of whose the agent's state is.

    Raises:
        ConfigError: it is another user's.
    """
    path = socket_path(config.agent.listen)
    if path is None:
        return
    ours = {os.geteuid(), 0}
    with suppress(OSError):  # no state: nobody's, then
        ours.add(config.agent.state.lstat().st_uid)
    with suppress(FileNotFoundError):  # it has just ended
        if (owner := path.stat().st_uid) not in ours:
            raise ConfigError(
                f"{path} is of the user {_name(owner)}, and not the agent's",
                fix="find out who that is; then set agent.listen to a socket in a folder that only "
                "you can write",
                subject="agent.listen",
            )


def _user(config: Config) -> int:
    """Who runs the agent: whose its database is. Before there is one, a machine's settings are for
    an agent of whose folder it will lie in; elsewhere, as in a container, that is root's to say."""
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
