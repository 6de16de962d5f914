"""Looks: the features of neighbours that the name finder may see, all visible in a release.

If a word is exchanged for another of its class, no other word's treatment may change. A network
that read its neighbours would break this promise at the first name. So it sees only a *look* of
each neighbour. A look is the word's own class and its case, which both survive the release, or the
punctuation mark, which passes. Two texts whose words look alike lead to the same decisions about
their neighbours.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.text.word_classes import READINGS
from sottovoce.core.text.words import Kind, Word

__all__ = [
    "EDGE",
    "FIRST_WORD",
    "IDENTIFIER",
    "LOOKS",
    "MARKS",
    "Case",
    "apply",
    "in_case_of",
    "looks",
    "shape",
]


class Case(enum.Enum):
    """The case of a word, as far as a release shows it."""

    LOWER = "lower"
    """Small letters, no letters with case at all, or a mixture such as "iPhone"."""
    CAPITALISED = "capitalised"
    """One capital at the start; a single capital letter counts as this."""
    UPPER = "upper"
    """Two or more letters, all of them capitals."""


_LOWER, _CAPITALISED, _UPPER = Case  # read four times faster than of an enum


def shape(word: str) -> Case:
    """Return the case of ``word``.

    >>> shape("Anna"), shape("NATO"), shape("iPhone")
    (<Case.CAPITALISED: 'capitalised'>, <Case.UPPER: 'upper'>, <Case.LOWER: 'lower'>)
    """
    if word.islower():  # the common case first
        return _LOWER
    if word.isupper():
        cased = sum(character.isupper() for character in word)
        return _UPPER if cased > 1 else _CAPITALISED
    rest = word[1:]
    if word[:1].isupper() and rest == rest.lower():
        return _CAPITALISED
    return _LOWER


def apply(case: Case, word: str) -> str:
    """Return ``word`` in ``case``.

    >>> apply(Case.CAPITALISED, "lake")
    'Lake'
    """
    if case is _LOWER:
        return word.lower()
    return word.upper() if case is _UPPER else word[:1].upper() + word[1:].lower()


def in_case_of(typed: str, word: str) -> str:
    """Return ``word`` in the case of another.

    >>> in_case_of("Anna", "lake")
    'Lake'
    """
    return word.lower() if typed.islower() else apply(shape(typed), word)  # the common case first


EDGE: Final = 0
"""The look beyond the ends of a document: before the first word, and after the last."""

MARKS: Final = ".,;:!?-()[]\"'/&*#@%"
"""Punctuation marks with different looks.

Variants of a mark share its look, and all other marks share one look.
"""
_VARIANTS: Final = {
    **dict.fromkeys("‐‑‒–—―", "-"),
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’‚‹›", "'"),
    "…": ".",
    "{": "[",
    "}": "]",
    "·": "*",
    "•": "*",
}
_MARK: Final = {mark: 1 + number for number, mark in enumerate(MARKS)}
_MARK.update({variant: _MARK[mark] for variant, mark in _VARIANTS.items()})
_OTHER_MARK: Final = 1 + len(MARKS)

IDENTIFIER: Final = _OTHER_MARK + 1
"""The look of every number, address, link and code."""

FIRST_WORD: Final = IDENTIFIER + 1
"""The first look of a word; smaller numbers are marks and identifiers."""

_CASES: Final = {case: number for number, case in enumerate(Case)}
_WORD, _IDENTIFIER = Kind.WORD, Kind.IDENTIFIER

LOOKS: Final = FIRST_WORD + (len(READINGS) + 1) * len(_CASES)  # and UNLISTED
"""The number of looks."""


def looks(words: Sequence[Word], readings: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the look of each word.

    Args:
        words: consecutive words of one document.
        readings: (n_words,) places in ``(*READINGS, UNLISTED)``, see `readings.look_up`; values of
            marks and identifiers are ignored.

    Returns:
        (n_words,) numbers from 1 up to `LOOKS`.
    """
    firsts = (FIRST_WORD + readings.astype(int) * len(_CASES)).tolist()
    small = _CASES[_LOWER]
    cases = {
        text: small if text.islower() else _CASES[shape(text)]
        for text in {word.text for word in words}
    }
    found = [
        first + cases[text]
        if kind is _WORD
        else IDENTIFIER
        if kind is _IDENTIFIER
        else _MARK.get(text[0], _OTHER_MARK)
        for (text, _, _, kind, _), first in zip(words, firsts, strict=True)
    ]
    return np.array(found, np.uint8)
