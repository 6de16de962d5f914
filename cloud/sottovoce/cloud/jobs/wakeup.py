"""Wakes the worker when there may be something to train.

Why it is here: server, worker and command line share a database, not memory. Whoever queues a job
announces it; an idle worker asks a few times a second whether there is news, which costs
microseconds, and looks for work only then. It only saves waiting: what time alone brings, such as
the end of a dead worker's lease, is seen because a wait is never long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sottovoce.cloud.state.database import Database

__all__ = ["Wakeup"]

POLL_SECONDS: Final = 0.2


class Wakeup:
    """Tells of news since it was made or last waited for: none is lost between two waits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = database.news()

    def wait(self, seconds: float, unless: Callable[[], bool]) -> None:
        """Returns after news of anybody, ``seconds`` at most, or as soon as ``unless``."""
        end = time.monotonic() + seconds
        while not unless() and time.monotonic() < end:
            seen = self._database.news()
            if seen != self._seen:
                self._seen = seen
                return
            time.sleep(POLL_SECONDS)
