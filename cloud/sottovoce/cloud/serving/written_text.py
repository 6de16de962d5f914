"""Tokens as they are written, turned into text that may be shown at once.

Why it is here: a character can take several tokens, and a string that ends the text several more.
What is shown cannot be taken back: so much is held back as may yet turn out otherwise, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

__all__ = ["Characters", "StopSequences"]

_BROKEN: Final = "\ufffd"
"""What a tokenizer gives for bytes that are no character, or none yet."""

_CONTEXT, _LONG, _LONGEST = 6, 24, 96
"""Tokens that are decoded again with every new one: at least so many, as neighbours settle how one
is spelt; beyond the second number fewer once all characters are whole, beyond the third anyhow."""

_BYTES: Final = 4
"""Of the longest character: of so many tokens in a row one begins one."""


class Characters:
    """Whole characters of an answer, as its tokens come.

    Args:
        tokenizer: of the fast kind.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._shown = 0
        """Characters of the text of these ids that were given out."""

    def add(self, token: int) -> str:
        """What may be shown now that ``token`` is known; often nothing."""
        self._ids.append(token)
        text = self._text(self._ids)
        ready = text.rstrip(_BROKEN)  # what is not whole yet shows as broken, and comes last
        found = ready[self._shown :]
        self._shown = max(self._shown, len(ready))
        if len(self._ids) > _LONG:
            self._shorten()
        return found

    def _shorten(self) -> None:
        """Leaves out what is settled, up to where a character begins."""
        for kept in range(_CONTEXT, _CONTEXT + _BYTES):
            text = self._text(self._ids[-kept:])
            if _BROKEN not in text or len(self._ids) > _LONGEST:
                self._ids = self._ids[-kept:]
                self._shown = len(text.rstrip(_BROKEN))
                return

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text


class StopSequences:
    """Ends a text before the first string of some.

    Args:
        strings: none of them empty.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = tuple(strings)
        self._held = ""

    def add(self, text: str) -> tuple[str, bool]:
        """What may be shown, and whether the text ends there."""
        text = self._held + text
        # Of several the first that is complete, so that it does not matter how the text arrives.
        found = [(at + len(stop), at) for stop in self._strings if (at := text.find(stop)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)[1]], True
        kept = max((_overlap(text, stop) for stop in self._strings), default=0)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], False

    def rest(self) -> str:
        """What was held back, once nothing more can come."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """The longest end of ``text`` that ``stop`` begins with, short of all of it."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
