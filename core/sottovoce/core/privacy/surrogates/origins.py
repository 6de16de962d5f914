"""A nationality for a nationality, a religion for a religion.

These words state a fact that a release must not show. They are few, so noise leaves most unchanged.
The sort of word (an adjective, a people, a believer, a building) is kept for the sentence and is
published. The word itself is not.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates.shape import Shape, case, one_of
from sottovoce.core.text import word_classes

__all__ = ["draw", "shape", "words"]

_ANY_OTHER: Final = "nationality"
"""The group of a word that a bundle calls an origin and that is not in the list."""


class _Table(NamedTuple):
    groups: dict[str, str]
    """Of every word that may be met, its group."""
    choices: dict[str, tuple[str, ...]]
    """Of every group, what is drawn."""


def words() -> frozenset[str]:
    """Return every word with a known sort, in small letters."""
    return frozenset(_table().groups)


def shape(word: str) -> Shape:
    """Return the sort of a word of origin, and its case.

    >>> shape("Danish").sort, shape("mosque").sort
    ('nationality', 'shrine')
    """
    return Shape("origin", _table().groups.get(word.lower(), _ANY_OTHER), case(word))


def draw(shape: Shape, random: Random) -> str:
    """Draw a word of that sort, uniformly."""
    return word_classes.apply(
        word_classes.Case(shape.layout), one_of(_table().choices[shape.sort], random)
    )


@cache
def _table() -> _Table:
    rows = files(__package__).joinpath("lists", "origins.tsv").read_text("ascii").splitlines()[1:]
    groups: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    for row in rows:
        word, group, use = row.split("\t")
        if use in ("both", "from"):
            groups[word] = group
        if use in ("both", "to"):
            choices[group] = (*choices.get(group, ()), word)
    return _Table(groups, choices)
