"""Ends an answer at the first of the strings that are to end it.

A stop string may hold a name, which the cloud knows by another. The device therefore looks for stop
strings itself, in the answer as it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Stops", "wordless"]


def wordless(stop: str) -> bool:
    """Whether the cloud may be told of a stop string: a name that stands alone reads as a word."""
    return stop.isascii() and not any(map(str.isalnum, stop))


class Stops:
    """Cuts a stream before the first of ``stops`` to be complete; holds back what may begin one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False
        """Whether one has come; nothing is given out from then on."""

    def feed(self, delta: str) -> str:
        """What can be given out now that ``delta`` has come."""
        if self.found:
            return ""
        text = self._held + delta
        if found := [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]:
            self.found, self._held = True, ""
            _, place = min(found)  # the first to be complete, as if characters came one by one
            return text[:place]
        held = max(map(self._beginning, [text] * len(self._stops), self._stops), default=0)
        cut = len(text) - held
        self._held = text[cut:]
        return text[:cut]

    def finish(self) -> str:
        """The rest."""
        rest, self._held = self._held, ""
        return rest

    @staticmethod
    def _beginning(text: str, stop: str) -> int:
        """How many of the last characters of ``text`` are the first of ``stop``."""
        most = min(len(stop) - 1, len(text))
        return next((n for n in range(most, 0, -1) if text.endswith(stop[:n])), 0)
