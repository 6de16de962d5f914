"""Waits for the signal that ends a daemon.

Why it is here: the usual handler sets an event the main thread waits on. The handler runs in that
same thread, and when it interrupts the event while it holds its own lock, the daemon sleeps for
ever; nor does a signal that the kernel gives to a thread of a C++ library wake it. A byte on a
descriptor does neither harm.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["Ending"]


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
        """Ends the wait as a signal does; for any thread, as often as it likes."""
        with suppress(BlockingIOError):  # full: the wait ends anyway
            os.write(self._departs, b"\0")

    def wait(self) -> None:
        """Returns once a signal has arrived or `set` was called, at once if that was before."""
        os.read(self._arrives, 1)
