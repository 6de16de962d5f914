"""Finds numbers of public catalogues and of courts' reports: "ISIN US0378331005", "384 U.S. 436".

They name a paper, a treatment or a case that anyone can look up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed

_CATALOGUES: Final = listed("catalogues")
_ENTRY = re.compile(r"(?=.*\d)[A-Z0-9]{1,12}(?:[.-]\d{1,4}){0,2}")
_JOINTS: Final = frozenset(
    {*(",", "(", ")", ":", "/"), *("and", "code", "codes", "is", "number", "or", "the", "vs")}
)
_NEAR: Final = 8
_REPORTERS: Final = listed("reporters")
_PAGE = re.compile(r"\d{1,4}")


def citations(sight: Sight) -> Iterator[int]:
    """Yield the places of the words of public numbers."""
    words = sight.words
    for place in range(1, len(words)):
        if sight.lower[place] in _REPORTERS and _PAGE.fullmatch(words[place - 1].text):
            yield place - 1
            yield place
            if place + 1 < len(words) and _PAGE.fullmatch(words[place + 1].text):
                yield place + 1
        if _ENTRY.fullmatch(words[place].text):
            at = place - 1
            while at > max(place - _NEAR, 0) and _joins(sight, at):
                at -= 1
            if words[at].text in _CATALOGUES:
                yield place


def _joins(sight: Sight, place: int) -> bool:
    """Return whether a word may stand between a catalogue and an entry: "CPT code 11042 vs"."""
    text = sight.words[place].text
    if text in _CATALOGUES:
        return False
    symbol = text.isupper() and text.isalpha()
    return symbol or sight.lower[place] in _JOINTS or _ENTRY.fullmatch(text) is not None
