"""Waits for the signal that ends a daemon.

Why it is here: the usual handler sets an event the main thread waits on. The handler runs in that
same thread, and when it interrupts the event while it holds its own lock, the daemon sleeps for
ever; nor does a signal that the kernel gives to a thread of a C++ library wake it. A byte on a
descriptor does neither harm.
"""

from __future__ import annotations

import os
import signal

__all__ = ["Ending"]


class Ending:
    """Takes over SIGTERM and SIGINT for the rest of the process; only for its main thread."""

    def __init__(self) -> None:
        self._arrives, departs = os.pipe()
        os.set_blocking(departs, False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        # Written to by the C handler, in whatever thread it runs.
        signal.set_wakeup_fd(departs, warn_on_full_buffer=False)

    def wait(self) -> None:
        """Returns once either has arrived, at once if it has before."""
        os.read(self._arrives, 1)
