"""Replaces characters by random ones, for codes without a known format."""

from __future__ import annotations

import string
import unicodedata
from typing import Final

from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates.shape import below

__all__ = ["fill", "layout"]

_ALPHABETS: Final = {
    "9": string.digits,
    "A": string.ascii_uppercase,
    "a": string.ascii_lowercase,
    "f": string.digits + "abcdef",
    "F": string.digits + "ABCDEF",
}
"""What each letter of a layout stands for; of other characters, themselves."""

_KEPT: Final = frozenset(string.punctuation + "‐‑‒–—―−·•")

_RANGE: Final = 2_080
"""A multiple of the size of every alphabet, so that the remainder of a number below is uniform."""


def layout(text: str) -> str:
    """Where digits (9), capitals (A) and other characters (a) stand, and the signs themselves.

    Numbers of any script count as digits, letters of any script as letters; ASCII punctuation,
    dashes, white space and currency signs stay as they are; anything else counts as a small letter.

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
