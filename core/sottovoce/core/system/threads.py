"""Threads for calls, where the machine may have none left.

Why it is here: Python's pool raises what the machine says when it wants another thread, though the
work is queued by then and those that there are would come to it. gRPC's server is in no way
prepared for that: the thread that takes calls in ends, and nobody is answered ever again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Final

__all__ = ["Threads", "join"]

_log = logging.getLogger(__name__)
_EACH: Final = 1_000
"""Of those that could not be had, one in so many is told."""


class Threads(ThreadPoolExecutor):
    """A pool that makes do with the threads it has; one it has from the beginning.

    Args:
        most: there may be.
        name: of each, as debuggers show it.

    Raises:
        RuntimeError: not even the first one could be had.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(most, thread_name_prefix=name)
        self._missed = 0
        self._name = name
        self.submit(int).result()

    def _adjust_thread_count(self) -> None:
        try:
            super()._adjust_thread_count()
        except RuntimeError:
            if not self._threads:
                raise
            if self._missed % _EACH == 0:
                _log.warning("the machine has no more threads: calls wait for %s", self._name)
            self._missed += 1


def join(threads: Iterable[Thread], seconds: float) -> None:
    """Wait until all of ``threads`` that were started have ended, ``seconds`` at most together."""
    until = time.monotonic() + seconds
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, until - time.monotonic()))
