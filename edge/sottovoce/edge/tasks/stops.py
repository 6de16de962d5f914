"""End an answer at the first of its stop strings.

A stop string may hold a name, and the cloud knows another name in its place. So the device itself
looks for stop strings, in the answer as it is shown.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["Stops", "wordless"]


def wordless(stop: str) -> bool:
    """Return whether the cloud may see a stop string: a lone name reads as a word."""
    return stop.isascii() and not any(map(str.isalnum, stop))


class Stops:
    """Cuts a stream before the first complete stop string.

    Holds back text that may be the start of one.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._held = ""
        self.found = False
        """Whether a stop string has come; from then on no text is returned."""

    def feed(self, delta: str) -> str:
        """Return the text that can be shown now that ``delta`` has come."""
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
        """Return the rest."""
        rest, self._held = self._held, ""
        return rest

    @staticmethod
    def _beginning(text: str, stop: str) -> int:
        """Return how many of the last characters of ``text`` are the first of ``stop``."""
        most = min(len(stop) - 1, len(text))
        return next((n for n in range(most, 0, -1) if text.endswith(stop[:n])), 0)
