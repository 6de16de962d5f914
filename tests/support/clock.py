"""A clock for a test to turn."""

from __future__ import annotations

BEGAN = 1_700_000_000.0


class Clock:
    """Stands still until ``later`` is set, in seconds."""

    def __init__(self) -> None:
        self.later = 0.0

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return BEGAN + self.later

    def __call__(self) -> float:
        """The same."""
        return self.now
