"""Wake the worker when there may be something to train.

Server, worker and command line share a database, not memory. A process that queues a job announces
the change. An idle worker polls for announcements a few times a second, which costs microseconds,
and looks for work only after one. Waits are short, so that the worker also notices changes without
an announcement, for example an expired lease.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sottovoce.cloud.state.database import Database

__all__ = ["Wakeup"]

POLL_SECONDS: Final = 0.2


class Wakeup:
    """Reports news since creation or the last wait; no news is lost between waits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = database.news()

    def wait(self, seconds: float, unless: Callable[[], bool]) -> None:
        """Wait for news, for at most ``seconds``, or until ``unless`` returns true."""
        end = time.monotonic() + seconds
        while not unless() and time.monotonic() < end:
            seen = self._database.news()
            if seen != self._seen:
                self._seen = seen
                return
            time.sleep(POLL_SECONDS)
