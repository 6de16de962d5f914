"""A process that serves until it is told to end."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, TypeVar

from sottovoce.core.system.limits import room_for_threads
from sottovoce.core.system.signals import Ending

__all__ = ["until_told"]

_log = logging.getLogger(__name__)


class _Stoppable(Protocol):
    def stop(self) -> None: ...


class _Server(_Stoppable, Protocol):
    def start(self) -> None: ...


_S = TypeVar("_S", bound=_Server)


def until_told(
    opened: Callable[[], _S],
    on_ready: Callable[[_S], None],
    beside: Callable[[], _Stoppable] | None = None,
) -> None:
    """Runs a server until SIGTERM or SIGINT, and ends it in order.

    Args:
        opened: makes it.
        on_ready: called once calls are answered.
        beside: starts what runs beside it, if anything does; that is stopped first.

    Raises:
        NotReady: there is no room for the threads it needs.
    """
    room_for_threads()
    ending = Ending()
    server = opened()
    other = beside() if beside is not None else None
    try:
        server.start()
        on_ready(server)
        ending.wait()
        _log.info("stopping")
    finally:
        if other is not None:
            other.stop()
        server.stop()
