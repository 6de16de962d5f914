"""What several commands show alike."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["when"]


def when(seconds: float) -> str:
    """A time in seconds since 1970, for people and programs."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
