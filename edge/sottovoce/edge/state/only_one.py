"""The lock on a state folder: one daemon holds it, and commands can look.

Two daemons over one state would each hand out what the other has promised. A port that answers may
belong to any program, but only the state's own daemon holds this lock.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sottovoce.core.errors import NotReady
from sottovoce.core.platform.files import disk, private_folder

__all__ = ["is_held", "only_one"]

_FILE: Final = "agent.lock"


@contextmanager
def only_one(state: Path) -> Iterator[None]:
    """Hold the state's lock; the kernel drops it however the process dies.

    Raises:
        NotReady: another daemon holds it. ConfigError: the folder cannot be used.
    """
    path = private_folder(state) / _FILE
    with disk(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise NotReady(
                f"an agent is already running over {state}",
                fix="use it (`sotto status`), or stop it first",
                subject="agent",
            ) from error
        yield
    finally:
        os.close(descriptor)


def is_held(state: Path) -> bool:
    """Return whether a daemon runs over this state.

    If none runs, this check can make a daemon that starts at the same instant fail. So call it only
    where some server has answered already.
    """
    try:
        descriptor = os.open(state / _FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
