"""Surrogates of names: a first name for a first name, a place for a place, and so on.

Noise would keep some of a name's neighbourhood, and a sentence reads badly if a town becomes a
verb. Names are drawn word by word from public lists. A word that replaces the same name everywhere
can be restored. The list depends on the name finder's result and on the word's place in the name.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache, partial
from importlib.resources import files
from itertools import groupby
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import Shape, case, one_of, words_of
from sottovoce.core.text import word_classes

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

_PERSONS: Final = ("given", "family", "women", "men", "surnames")

ROLES: Final = tuple(_LISTS)
"""The roles of a word in a name."""


def role(kind: str, form: str, before: bool = False, after: bool = False) -> str:
    """Return the role of a word in a name, one of `ROLES`.

    It depends on the word and on the looks of its neighbours, but not on the neighbours themselves.
    Otherwise, exchanging one name would change the draw for the next.

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
    if before or (kind == "PERSON" and is_family(form)):
        return last
    return alone


def is_family(form: str) -> bool:
    """Return whether a name in small letters is a listed last name and no first name."""
    return form in _families()


@cache
def _families() -> frozenset[str]:
    lines = "".join(_known().values()).splitlines()
    known = (line[:-2] for line in lines if line.endswith("\tl"))
    families = frozenset((*words_of("family"), *words_of("surnames"), *known))
    return families.difference(words_of("given"))


def gender(name: str) -> str:
    """Return the gender of a given name in small letters: "f", "m", "b" for both, else "".

    >>> gender("nadia"), gender("tom"), gender("xq")
    ('f', 'm', '')
    """
    for letter, file in (("f", "women"), ("m", "men")):
        if _holds(name, words_of(file)):
            return letter
    found = _told(name)
    return "" if found == "l" else found


def known(name: str) -> bool:
    """Return whether a word in small letters is a listed given name or last name.

    >>> known("nadia"), known("xq")
    (True, False)
    """
    return bool(_told(name)) or any(map(partial(_holds, name), map(words_of, _PERSONS)))


def _holds(name: str, words: tuple[str, ...]) -> bool:
    """Look up a word in a sorted list, without the memory of a set."""
    at = bisect_left(words, name)
    return at < len(words) and words[at] == name


def _told(name: str) -> str:
    """Return the list's mark of a name in small letters: "f", "m", "b" or "l"; else ""."""
    lines = _known().get(name[:2], "")
    return lines.partition(f"\n{name}\t")[2][:1]


@cache
def _known() -> dict[str, str]:
    """Return the lines by their first two letters, each part with a line's end in front.

    A dictionary of all names would take ten times the memory.
    """
    text = files(__package__).joinpath("lists", "known_names.tsv").read_text("ascii")
    lines = text.splitlines(keepends=True)[1:]  # the first is the header
    return {two: "\n" + "".join(part) for two, part in groupby(lines, lambda line: line[:2])}


def shape(role: str, word: str) -> Shape:
    """Return the shape of a name: its role and its case."""
    return Shape("name", role, case(word))


def draw(shape: Shape, random: Random) -> str:
    """Draw a word of that role, uniformly."""
    return word_classes.apply(
        word_classes.Case(shape.layout), one_of(words_of(_LISTS[shape.sort]), random)
    )
