"""Whether an app may ask once more: its token still good, and not too often.

Why it is here: the daemon's socket and its doorway let the same apps in, and what an app asks of
one counts for the other. Calls a minute are counted in memory alone: they protect the device's
time, which a restart gives back anyway; what a day may cost in privacy is counted on the disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sottovoce.core.errors import Overloaded
from sottovoce.edge.state.apps import MOST_APPS, Apps, stranger
from sottovoce.edge.state.caller import App

__all__ = ["Callers"]


class Callers:
    """Lets apps of ``apps`` in, and the owner always; ``clock`` gives seconds that only grow."""

    def __init__(self, apps: Apps, clock: Callable[[], float] = time.monotonic) -> None:
        self._apps, self._clock = apps, clock
        self._lock = threading.Lock()
        self._left: dict[bytes, tuple[float, float]] = {}
        """By app the calls it has left, and when that was."""

    def find(self, token: str) -> App | None:
        """The app that has this token; see `Apps.find`."""
        return self._apps.find(token)

    def check(self, app: App | None) -> None:
        """Refuses an app that was removed.

        Raises:
            Unauthenticated: it was.
        """
        if app is not None and not self._apps.has(app):
            raise stranger()

    def admit(self, app: App | None) -> None:
        """Counts a call; those of a minute may all come at once, the next as the minute passes.

        Raises:
            Unauthenticated: it was removed. Overloaded: it has called too often.
        """
        self.check(app)
        if app is None or not app.calls_a_minute:
            return
        most = app.calls_a_minute
        with self._lock:
            now = self._clock()
            left, since = self._left.pop(app.key, (float(most), now))
            left = min(float(most), left + (now - since) * most / 60)
            self._left[app.key] = (left - 1 if left >= 1 else left), now
            if len(self._left) > MOST_APPS:  # of apps that were removed, the stillest first
                del self._left[next(iter(self._left))]
        if left < 1:
            raise Overloaded(
                f"this app may call {most} times a minute, and has",
                fix="call less often, or ask the device's owner for more",
                subject="app",
            )
