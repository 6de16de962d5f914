"""Check an app's token and its calls per minute.

The daemon's socket and its OpenAI endpoint share these checks, so calls to one count for the other.
Calls per minute are counted in memory only. They protect the device's time, which a restart frees
anyway. The daily privacy spending is counted on disk.
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
    """Admits the apps of ``apps``, and always the owner.

    ``clock`` returns seconds and never goes back.
    """

    def __init__(self, apps: Apps, clock: Callable[[], float] = time.monotonic) -> None:
        self._apps, self._clock = apps, clock
        self._lock = threading.Lock()
        self._left: dict[bytes, tuple[float, float]] = {}
        """For each app, the calls it has left and the time of that count."""

    def find(self, token: str) -> App | None:
        """Return the app that has this token; see `Apps.find`."""
        return self._apps.find(token)

    def check(self, app: App | None) -> None:
        """Refuse an app that was removed.

        Raises:
            Unauthenticated: the app was removed.
        """
        if app is not None and not self._apps.has(app):
            raise stranger()

    def admit(self, app: App | None) -> None:
        """Count a call of an app.

        A minute's calls may all come at once; further calls are allowed as time passes.

        Raises:
            Unauthenticated: the app was removed.
            Overloaded: the app has called too often.
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
            if len(self._left) > MOST_APPS:  # drop removed apps, the longest idle first
                del self._left[next(iter(self._left))]
        if left < 1:
            raise Overloaded(
                f"this app may call {most} times a minute, and has",
                fix="call less often, or ask the device's owner for more",
                subject="app",
            )
