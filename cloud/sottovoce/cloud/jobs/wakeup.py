"""Wakes the worker when there is something to train.

Why it is here: server, worker and command line share files, not memory, and SQLite tells nobody of
a change. A FIFO in the state folder does: whoever queues a job puts a byte in, and an idle worker
sleeps until there is one. It only saves waiting: whoever misses it looks again after a while.
"""

from __future__ import annotations

import os
import select
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Wakeup"]


class Wakeup:
    """Wakes the worker of one state folder."""

    def __init__(self, state: Path) -> None:
        self._file = state / "worker.bell"

    def ring(self) -> None:
        """Wakes who waits; nothing happens if nobody does. Safe in a signal handler."""
        with suppress(OSError):  # nobody listens, or it has rung so often that the pipe is full
            pipe = os.open(self._file, os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b"!")
            finally:
                os.close(pipe)

    @contextmanager
    def heard(self) -> Iterator[Callable[[float], None]]:
        """Within the block no ring is lost; what it gives waits for one, seconds at most."""
        pipe = self._opened()
        if pipe is None:
            yield time.sleep
            return

        def wait(seconds: float) -> None:
            if select.select([pipe], [], [], seconds)[0]:
                os.read(pipe, 4096)

        try:
            yield wait
        finally:
            os.close(pipe)
            self._file.unlink(missing_ok=True)

    def _opened(self) -> int | None:
        """The pipe; None where the folder's file system has none, or something is in its place."""
        try:
            with suppress(FileExistsError):
                os.mkfifo(self._file, 0o600)
            # Open for writing too, or the pipe would be at its end whenever nobody rings.
            pipe = os.open(self._file, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return None
        if stat.S_ISFIFO(os.fstat(pipe).st_mode):
            return pipe
        os.close(pipe)
        return None
