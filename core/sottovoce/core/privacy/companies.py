"""Hides names of companies that a finder misses, by the words beside them."""

from __future__ import annotations

from typing import Final

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Kind

_COMPANY_ENDS: Final = listed("company_ends")
_EMPLOYED: Final = listed("employed")
_IN_NO_NAME: Final = listed("in_sentences") | {"i", "a", "an", "at", "in", "of", "my", "we"}
_PREPOSITIONS: Final = ("for", "at", "by")
_MOST_IN_COMPANY: Final = 4


def hide_companies(sight: Sight, hides: list[str]) -> None:
    """Hide capitals before "Ltd" and after "works for", but no public word alone."""
    for place, lower in enumerate(sight.lower):
        if lower in _COMPANY_ENDS and sight.capital(place):
            _company(sight, hides, place, -1)
        elif lower in _PREPOSITIONS and place and sight.lower[place - 1] in _EMPLOYED:
            _company(sight, hides, place, 1)


def _company(sight: Sight, hides: list[str], place: int, step: int) -> None:
    found: list[int] = []
    at = place + step
    while 0 <= at < len(hides) and len(found) < _MOST_IN_COMPANY:
        word, edge = sight.words[at], max(at, at - step)
        if sight.gaps[edge] not in (" ", "") or (word.text in (",", "&") and step > 0):
            break
        if word.text not in (",", "&", "-"):
            if (
                word.kind is not Kind.WORD
                or not sight.capital(at)
                or sight.lower[at] in _IN_NO_NAME
            ):
                break
            found.append(at)
        at += step
    passing = Mark.PUBLIC | Mark.PLACE | Mark.ORIGIN | Mark.DATE | Mark.TITLE
    if len(found) > 1 or not all(sight.marks[each] & passing for each in found):
        for each in found:
            if hides[each] in ("", "unlisted"):
                hides[each] = "organisations"
