"""Random surrogates for words without neighbours in meaning: names, numbers, identifiers etc.

Every surrogate is made in two steps. `shape` reduces a word to its `Shape`, which the release
shows. `draw` makes another text of that shape. A surrogate protects because it is independent of
the true word. This holds by construction, because `draw` gets the shape and not the word.
`docs/privacy.md` describes the shape of each kind. The module `surrogate` handles all kinds.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple, TypeVar

from sottovoce.core.privacy.noise import Random
from sottovoce.core.text import word_classes

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
def words_of(name: str) -> tuple[str, ...]:
    """Return the sorted words of the public list ``name``; `lists/README.md` names the sources."""
    text = files(__package__).joinpath("lists", f"{name}.txt").read_text("ascii")
    return tuple(text.split())


def below(end: int, n: int, random: Random) -> list[int]:
    """Return ``n`` whole numbers, uniform on 0 .. end - 1 except for a part in 2**53 / end."""
    return [int(number * end) for number in random.random((n,)).tolist()]


def one_of(choices: Sequence[_Item], random: Random) -> _Item:
    """Draw one of ``choices``, uniformly."""
    return choices[below(len(choices), 1, random)[0]]


def case(word: str) -> str:
    """The case that a surrogate takes over, as the value of a `word_classes.Case`.

    A mixture is shown by its first letter alone, so that "McDonald" is replaced by a Capitalised
    name and "iPhone" by a small word.

    >>> case("McDonald"), case("iPhone"), case("NATO")
    ('capitalised', 'lower', 'upper')
    """
    found = word_classes.shape(word)
    if found is word_classes.Case.LOWER and word[:1].isupper():
        found = word_classes.Case.CAPITALISED
    return found.value


_ALPHABETS: Final = {
    "9": string.digits,
    "A": string.ascii_uppercase,
    "a": string.ascii_lowercase,
    "f": string.digits + "abcdef",
    "F": string.digits + "ABCDEF",
}
"""What each letter of a layout stands for; of other characters, themselves."""

_KEPT: Final = frozenset(string.punctuation + "‐‑‒–—―−·•°")

_RANGE: Final = 2_080
"""A multiple of the size of every alphabet, so that the remainder of a number below is uniform."""


def layout(text: str) -> str:
    """Where digits (9), capitals (A) and other characters (a) stand, and the signs themselves.

    Numbers of any script count as digits, letters of any script as letters. ASCII punctuation,
    dashes, degrees, white space and currency signs stay as they are. Anything else counts as a
    small letter.

    >>> layout("sk-Ab3٣é£")
    'aa-Aa99a£'
    """
    return "".join(map(_class_of, text))


def fill(layout: str, random: Random) -> str:
    """Random characters of that layout, each uniform over its alphabet; f and F are hex digits.

    The true characters are not used, so one may come back by chance. Rejecting it would mean
    reading it again.
    """
    drawn = below(_RANGE, len(layout), random)
    return "".join(map(_drawn, layout, drawn))


def _drawn(place: str, number: int) -> str:
    alphabet = _ALPHABETS.get(place)
    return place if alphabet is None else alphabet[number % len(alphabet)]


def _class_of(character: str) -> str:
    if character in _KEPT or character.isspace():
        return character
    category = unicodedata.category(character)
    if category[0] == "N":
        return "9"
    if category == "Sc":
        return character
    return "A" if category in ("Lu", "Lt") else "a"


def ordinal_ending(day: int, like: str) -> str:
    """Return the ending of an ordinal number, in the case of another.

    >>> ordinal_ending(2, "th"), ordinal_ending(11, "ST")
    ('nd', 'TH')
    """
    ending = "th" if 10 < day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
    return ending.upper() if like.isupper() else ending
