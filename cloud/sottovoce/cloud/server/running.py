"""Run a server process until a signal ends it."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import Protocol, TypeVar

from sottovoce.core.platform import memory
from sottovoce.core.platform.limits import DAEMON_FILES, room_for_files, room_for_threads
from sottovoce.core.platform.threads import Ending

__all__ = ["until_told"]

_log = logging.getLogger(__name__)
_LARGE, _ARENAS = 4 << 20, 2
"""Size in bytes from which a freed block returns to the system, and the number of shared heaps.

Otherwise short-lived memory of a pass lies among lasting memory, and the process grows for hours:
by 61 MB in an hour of mixed use (docs/lab_notes.md)."""


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
    """Run a server until SIGTERM or SIGINT, and end it in order.

    Args:
        opened: creates the server.
        on_ready: called once calls are answered.
        beside: starts a companion process, if any, which is stopped first.

    Raises:
        NotReady: files or threads are exhausted.
        KeyboardInterrupt: SIGINT ended it, after an orderly shutdown.
    """
    memory.bound_heap(_LARGE, _ARENAS)
    room_for_files(DAEMON_FILES)
    room_for_threads()
    ending = Ending()
    server = opened()
    other = beside() if beside is not None else None
    try:
        server.start()
        on_ready(server)
        ended_by = ending.wait()
        _log.info("stopping")
    finally:
        if other is not None:
            other.stop()
        server.stop()
    if ended_by is signal.SIGINT:
        raise KeyboardInterrupt
