"""Threads: a pool that copes when the machine has none left, work done once for all, and signals.

Python's pool raises an error when it cannot start another thread, although the work is queued and
the existing threads would do it. The gRPC server does not handle that error. Its accepting thread
ends, and the server never answers again.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from typing import Final

__all__ = ["Ending", "Threads", "join"]


_log = logging.getLogger(__name__)
_EACH: Final = 1_000
"""One in this many failed thread starts is logged."""


class Threads(ThreadPoolExecutor):
    """A pool that continues with the threads it has; it starts one at once.

    Args:
        most: the most threads.
        name: of each thread, as debuggers show it.

    Raises:
        RuntimeError: not even the first thread could be started.
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


class Ending:
    """Takes over SIGTERM and SIGINT for the rest of the process; only for its main thread."""

    def __init__(self) -> None:
        self._arrives, self._departs = os.pipe()
        os.set_blocking(self._departs, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        # Written to by the C handler, in whatever thread it runs.
        signal.set_wakeup_fd(self._departs, warn_on_full_buffer=False)

    def set(self) -> None:
        """End the wait as a signal does; for any thread, any number of times."""
        with suppress(BlockingIOError):  # full: the wait ends anyway
            os.write(self._departs, b"\0")

    def wait(self) -> signal.Signals | None:
        """Return the first signal, or None after `set`; at once if it came before."""
        number = os.read(self._arrives, 1)[0]
        return signal.Signals(number) if number else None
