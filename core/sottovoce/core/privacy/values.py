"""Hides values again that were drawn once: a PIN, an account number, the code of a booking.

The words around a value tell that it is private: "My PIN is 4821". Where it stands again, they may
not: "I typed 4821", "Is 5550142 prime?". So a value that was drawn as a secret, number or contact
is drawn wherever it stands, in the text and in the rest of the conversation. It needs a digit and
four characters. A secret of letters alone counts if it is one word in no public list.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from sottovoce.core.privacy.identifier_parts import private_parts
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.text.words import Kind

KINDS: Final = ("secrets", "numbers", "contacts")
"""What a value hides, of `hiding.KINDS`."""
MOST: Final = 1_024
"""Values of a conversation."""
_SHORTEST: Final = 4
_LONG: Final = 6
"""Characters from which a value counts in other groups, as "5,550,142"."""
_LONGEST: Final = 256
_RUN = re.compile(r"(?<!\d[.,])[^\W_]+(?![.,]\d)")
_JOINTS: Final = frozenset({"", " ", "\xa0"})
_BETWEEN: Final = frozenset(",;:|")
"""Marks between two values."""
_GROUP = re.compile(r"[A-Z\d+]+")
_MOST_GROUPS: Final = 9


class Values:
    """The values of one text and of the conversation before it.

    Args:
        known: what the conversation drew before, in small letters without signs, and what it hides.

    Attributes:
        found: the values that this text added.
        late: whether one of them also stands in a part that was decided before.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.found: dict[str, str] = {}
        self.late = False
        self._known = {**known}
        self._sorted = sorted(known)

    def hide(
        self, document: str, sight: Sight, hides: list[str], drawn: Callable[[int], bool]
    ) -> None:
        """Note the values among consecutive words of a text, and hide all known ones.

        Args:
            hides: what each word hides; changed.
            drawn: whether the word at a place is drawn after all.
        """
        words, new = sight.words, False
        for places, value, kind in _values(sight, hides):
            if value in self._known or len(self._known) >= MOST or not all(map(drawn, places)):
                continue
            self._known[value] = self.found[value] = kind
            new = True
            typed = document[words[places[0]].start : words[places[-1]].end]
            self.late |= document.find(typed, 0, words[0].start) >= 0
        if new:
            self._sorted = sorted(self._known)
        if self._sorted:
            for place in range(len(hides)):
                self._hide(sight, hides, place)

    def _hide(self, sight: Sight, hides: list[str], place: int) -> None:
        word = sight.words[place]
        if word.clitic or not _bare(word.text):
            return
        bare = ""
        for end in range(place, min(place + 2 * _MOST_GROUPS, len(hides))):
            if end > place and sight.gaps[end] not in _JOINTS:
                break
            bare += _bare(sight.words[end].text)
            if not self._begins(bare):
                break
            spread = end > place or not word.text.isalnum()
            if bare in self._known and (len(bare) >= _LONG or not spread):
                for at in range(place, end + 1):
                    if _bare(sight.words[at].text):
                        hides[at] = hides[at] or self._known[bare]
        if not hides[place] and word.kind is Kind.IDENTIFIER:
            parts = (self._known.get(part.lower(), "") for part in _RUN.findall(word.text))
            hides[place] = next(filter(None, parts), "")

    def _begins(self, bare: str) -> bool:
        at = bisect_left(self._sorted, bare)
        return at < len(self._sorted) and self._sorted[at].startswith(bare)


def _values(sight: Sight, hides: Sequence[str]) -> Iterator[tuple[Sequence[int], str, str]]:
    """Yield the places of each drawn value, the value, and what it hides."""
    place = 0
    while place < len(hides):
        kind, places = hides[place], [place]
        place += 1
        if kind not in KINDS:
            continue
        while place < len(hides) and _goes_on(sight, hides, places[-1], place):
            places += [place] if hides[place] else []
            place += 1
        texts = [sight.words[at].text for at in places]
        value = "".join(map(_bare, texts))
        if len(places) == 1:
            (parts,) = (private_parts(text, kind) or () for text in texts)
            found = [_bare(texts[0][start:end]) for start, end, _ in parts] or [value]
        else:
            found = [value]
        for each in found:
            if _SHORTEST <= len(each) <= _LONGEST and (
                any(map(str.isdigit, each)) or _is_secret_word(sight, places, kind)
            ):
                yield places, each, kind


def _goes_on(sight: Sight, hides: Sequence[str], last: int, place: int) -> bool:
    """Return whether a word is of the same value: a mark inside it, a group of a number."""
    word, gap = sight.words[place], sight.gaps[place]
    if word.kind is Kind.PUNCTUATION:
        after, inside = place + 1, not gap and word.text[0] not in _BETWEEN
        tight = after < len(hides) and (not sight.gaps[after] or word.text == ")")
        return inside and tight and _goes_on(sight, hides, last, after)
    if hides[place] != hides[last]:
        return False
    groups = _GROUP.fullmatch(sight.words[last].text) and _GROUP.fullmatch(word.text)
    return not gap or (gap in _JOINTS and hides[place] != "secrets" and bool(groups))


def _is_secret_word(sight: Sight, places: Sequence[int], kind: str) -> bool:
    word = sight.words[places[0]]
    alone = len(places) == 1 and word.kind is Kind.WORD
    return alone and kind == "secrets" and not sight.marks[places[0]]


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lower()
