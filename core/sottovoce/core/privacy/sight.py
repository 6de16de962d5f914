"""The view of a text that the rules of the policy `personal` share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sottovoce.core.text.words import Word


class Sight(NamedTuple):
    """Consecutive words as rules read them.

    Attributes:
        words: the words.
        gaps: the text before each word, back to the word before it.
        marks: of each word in the vocabulary; 0 for marks and identifiers.
        lower: each word in small letters.
    """

    words: Sequence[Word]
    gaps: Sequence[str]
    marks: Sequence[int]
    lower: Sequence[str]

    def capital(self, place: int) -> bool:
        """Return whether a word begins with a capital."""
        return self.words[place].text[:1].isupper()

    def breaks(self, place: int) -> bool:
        """Return whether a line ends before a word."""
        return "\n" in self.gaps[place]

    def within(self, start: int, end: int) -> Iterator[int]:
        """Yield the places of the words that stand in a part of the text, also those cut."""
        at = bisect_right(self.words, start, key=lambda word: word.end)
        while at < len(self.words) and self.words[at].start < end:
            yield at
            at += 1

    def begins(self, place: int) -> bool:
        """Return whether a word has its capital from where it stands."""
        return not place or self.breaks(place) or self.words[place - 1].text[0] in _ENDS

    def shouted(self, place: int) -> bool:
        """Return whether a word and all near it are in capitals; then capitals mark no name."""
        near = self.words[max(place - _SHOUTED, 0) : place + _SHOUTED + 1]
        words = [word.text for word in near if word.text.isalpha() and len(word.text) > 1]
        return len(words) > _SHOUTED and all(map(str.isupper, words))


_SHOUTED: Final = 3
_ENDS: Final = frozenset('.!?:;•*-|#>"“')
