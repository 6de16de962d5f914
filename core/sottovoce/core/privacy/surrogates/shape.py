"""The shape of a word, its kind and its layout: all that its surrogate depends on.

A surrogate protects because it is independent of the true word. This holds by construction, because
the function that draws it gets the shape and not the word. A release shows the shape.
`docs/privacy.md` describes the shape of each kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple, TypeVar

from sottovoce.core.privacy.noise import Random
from sottovoce.core.text import casing

__all__ = ["Shape", "below", "case", "listed", "one_of"]

_Item = TypeVar("_Item")


class Shape(NamedTuple):
    """All that a surrogate depends on; it is published with every release."""

    kind: str
    """Which module draws it, as `surrogate` knows them."""
    sort: str
    """Which list or format it is drawn from."""
    layout: str = ""
    """Its case, or what stands where; empty where the sort says all."""


@cache
def listed(name: str) -> tuple[str, ...]:
    """The words of the public list called ``name``, sorted; `lists/README.md` tells whence."""
    text = files(__package__).joinpath("lists", f"{name}.txt").read_text("ascii")
    return tuple(text.split())


def below(end: int, n: int, random: Random) -> list[int]:
    """``n`` whole numbers, uniform on 0 .. end - 1 but for a part in 2**53 / end."""
    return [int(number * end) for number in random.random((n,)).tolist()]


def one_of(choices: Sequence[_Item], random: Random) -> _Item:
    """Draw one of ``choices``, uniformly."""
    return choices[below(len(choices), 1, random)[0]]


def case(word: str) -> str:
    """The case that a surrogate takes over, as the value of a `casing.Case`.

    A mixture is shown by its first letter alone, so that "McDonald" is replaced by a Capitalised
    name and "iPhone" by a small word.

    >>> case("McDonald"), case("iPhone"), case("NATO")
    ('capitalised', 'lower', 'upper')
    """
    found = casing.shape(word)
    if found is casing.Case.LOWER and word[:1].isupper():
        found = casing.Case.CAPITALISED
    return found.value
