"""Finds where people are from or what they believe, said of a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import Sign, listed
from sottovoce.core.text.vocabulary import Mark

_PEOPLE: Final = listed("people")
_WHO: Final = listed("who")
_LANGUAGE: Final = listed("language")
_REACH: Final = 6


def origins(sight: Sight) -> Iterator[Sign]:
    """Yield origins that are said of somebody: "my boss is Dutch", and not "a Dutch oven"."""
    for place, mark in enumerate(sight.marks):
        if not mark & Mark.ORIGIN:
            continue
        before = sight.lower[max(place - _REACH, 0) : place]
        after = sight.lower[place + 1 : place + 2]
        for cut in range(len(before) - 1, -1, -1):
            if before[cut] in (".", "!", "?", ";"):
                before = before[cut + 1 :]
                break
        if before and before[-1] in _LANGUAGE and not (after and after[0] in _WHO):
            continue
        if not sight.capital(place) and mark & Mark.WORD and not _is_said(before):
            continue
        who = _PEOPLE & {*before} and {*before} & _BEING
        thing = after and after[0].isalpha() and after[0] not in _NO_THINGS
        if thing and not _is_said(before):
            who = set()  # "I used a Dutch oven"
        told = who or _SEXES & {*before[-_NEAR:]}
        if told or (after and after[0] in _WHO):
            yield Sign(place, "origins")


def _is_said(before: Sequence[str]) -> bool:
    """Return whether "I am", "he is a" and the like end just before an origin in small letters."""
    last = [word for word in before[-4:] if word not in _BEFORE_ORIGINS]
    return last[-1:] == ["im"] or (len(last) > 1 and last[-1] in _BEING and last[-2] in _SUBJECTS)


_BEFORE_ORIGINS: Final = frozenset({"a", "an", "also", "both", "from", "half", "not"})
_NO_THINGS: Final = frozenset(
    {"and", "as", "at", "but", "by", "from", "i", "in", "like", "or", "so", "too", "who", "with"}
)
"""What may follow an origin that is said of somebody: "my boss is Dutch and"."""
_SUBJECTS: Final = frozenset({"i", "he", "she", "we", "they", "husband", "wife", "bf", "gf"})
_SEXES: Final = frozenset({"female", "male"})
"""Beside an origin, in notes about persons: "(female, 27, Inuit)"."""
_NEAR: Final = 4
_BEING: Final = listed("being")
