"""A first name for a first name, a place for a place, and something like it for other names.

Why it is here: a name that is replaced by noise keeps some of its neighbourhood, and a sentence in
which a town became a verb reads badly. Names are drawn word by word from public lists, so that a
word which stands for the same name everywhere can be turned back. Which list depends on what the
name finder said and on where in the name the word stands.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates.shape import Shape, case, listed, one_of
from sottovoce.core.text import casing

__all__ = ["ROLES", "draw", "roles", "shape"]

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

_STAY: Final = frozenset({"and", "at", "for", "in", "of", "on", "the", "to", "&"})

ROLES: Final = tuple(_LISTS)
"""What a word may be in a name."""


def roles(kind: str, words: Sequence[str], families: Container[str] = ()) -> list[str]:
    """What each word is in a name, one of `ROLES`; "" for a connecting word, which stays.

    Args:
        kind: of the whole name, as the name finder says it.
        words: of the name, in order, as written.
        families: last names met elsewhere in the document, in small letters: one of these that
            stands alone is a last name, too, so that both get one surrogate.

    >>> roles("PERSON", ["Anna", "Lee"]), roles("PLACE", ["Isle", "of", "Man"])
    (['given', 'family'], ['place head', '', 'place'])
    """
    alone, before, last = _PLACES[kind]
    own = [place for place, word in enumerate(words) if word.lower() not in _STAY]
    if len(own) == 1 and words[own[0]].lower() in families and kind == "PERSON":
        alone = last
    found = [""] * len(words)
    for place in own:
        found[place] = alone if len(own) == 1 else last if place == own[-1] else before
    return found


def shape(role: str, word: str) -> Shape:
    """The role of a word in its name, and its case."""
    return Shape("name", role, case(word))


def draw(shape: Shape, random: Random) -> str:
    """Any word of that role, each as likely as any other."""
    return casing.apply(casing.Case(shape.layout), one_of(listed(_LISTS[shape.sort]), random))
