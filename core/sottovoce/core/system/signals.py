"""Waits for the signal that ends a daemon.

The usual handler sets an event that the main thread waits for. But the handler runs in that same
thread. If it interrupts the event while the event holds its own lock, the daemon sleeps for ever. A
signal that the kernel delivers to a thread of a C++ library does not wake the main thread either. A
byte on a descriptor has neither problem.
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
        """End the wait as a signal does; for any thread, any number of times."""
        with suppress(BlockingIOError):  # full: the wait ends anyway
            os.write(self._departs, b"\0")

    def wait(self) -> signal.Signals | None:
        """Return the first signal, or None after `set`; at once if it came before."""
        number = os.read(self._arrives, 1)[0]
        return signal.Signals(number) if number else None
