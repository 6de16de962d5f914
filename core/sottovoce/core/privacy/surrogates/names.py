"""A first name for a first name, a place for a place, and something like it for other names.

Why it is here: a name that is replaced by noise keeps some of its neighbourhood, and a sentence in
which a town became a verb reads badly. Names are drawn word by word from public lists, so that a
word which stands for the same name everywhere can be turned back. Which list depends on what the
name finder said and on where in the name the word stands.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates.shape import Shape, case, listed, one_of
from sottovoce.core.text import casing

__all__ = ["ROLES", "draw", "role", "shape"]

_LISTS: Final = {
    "given": "given",
    "family": "family",
    "place": "places",
    "place head": "place_heads",
    "organisation": "organisations",
    "organisation tail": "organisation_tails",
    "other": "others",
}

_PLACES: Final = {
    "PERSON": ("given", "given", "family"),
    "PLACE": ("place", "place head", "place"),
    "ORGANISATION": ("organisation", "organisation", "organisation tail"),
    "OTHER": ("other", "other", "other"),
}
"""For each kind of name the role of a word that stands alone, before the last, and last."""

ROLES: Final = tuple(_LISTS)
"""What a word may be in a name."""


def role(kind: str, form: str, before: bool = False, after: bool = False) -> str:
    """What a word is in a name, one of `ROLES`.

    It follows from the word and from how its neighbours look. What a neighbour *is* has no say, or
    exchanging one name would change what is drawn for the next.

    Args:
        kind: of the name, as the name finder says it of this word.
        form: the word in small letters: a last name that stands alone is known by the list.
        before, after: whether the word on this side looks as if it belonged to a name.

    >>> role("PERSON", "anna", after=True), role("PERSON", "lee", before=True)
    ('given', 'family')
    """
    alone, first, last = _PLACES[kind]
    if after:
        return first
    if before or (kind == "PERSON" and form in _families()):
        return last
    return alone


@cache
def _families() -> frozenset[str]:
    """Last names that are no first names."""
    return frozenset(listed("family")) - frozenset(listed("given"))


def shape(role: str, word: str) -> Shape:
    """The role of a word in its name, and its case."""
    return Shape("name", role, case(word))


def draw(shape: Shape, random: Random) -> str:
    """Any word of that role, each as likely as any other."""
    return casing.apply(casing.Case(shape.layout), one_of(listed(_LISTS[shape.sort]), random))
