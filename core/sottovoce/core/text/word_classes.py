"""The classes of words, and the looks of neighbours that the name finder may see.

A *reading* is the class of a listed word by itself. A tagger that looks at neighbours lets one word
decide the treatment of another. Then no privacy bound holds for either. In 10.8 % of trials,
exchanging a word for another of its part of speech changed a neighbour's treatment. A reading
depends on the word alone. The builder of the bundle decides it once, from public counts and lists,
and the device only looks it up.

A *look* is the name finder's view of a neighbour: the word's class and its case, which both
survive the release, or the punctuation mark, which passes. A network that read the neighbours
themselves would let one word change another's treatment at the first name.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sottovoce.core.text.words import Kind, Word

if TYPE_CHECKING:  # commands that but list policies need no NumPy
    import numpy as np
    from numpy.typing import NDArray


READINGS: Final = (
    *("NOUN", "VERB", "ADJ", "ADV", "REFERENCE", "GRAMMAR", "OTHER"),
    *("NAME", "NUMBER", "ORIGIN", "FACT", "CLITIC"),
)
"""The readings, in the order of all files and arrays.

The first four are open parts of speech. REFERENCE: pronouns, prepositions and question words.
GRAMMAR: auxiliaries, determiners, conjunctions, particles. OTHER: interjections, symbols and the
rest. NAME: mostly met as a proper noun. NUMBER: number words and ordinals. ORIGIN: nationalities,
religions, ethnic groups. FACT: states a person's health, sexuality, politics, crime or money.
CLITIC: "n't", "'s".
"""

BY_TAG: Final = {
    **{tag: tag for tag in ("NOUN", "VERB", "ADJ", "ADV")},
    **dict.fromkeys(("PRON", "ADP"), "REFERENCE"),
    **dict.fromkeys(("AUX", "DET", "CCONJ", "SCONJ", "PART"), "GRAMMAR"),
    **dict.fromkeys(("INTJ", "X", "SYM", "PUNCT"), "OTHER"),
    "PROPN": "NAME",
    "NUM": "NUMBER",
}
"""The reading of a word by its commonest part of speech."""

UNLISTED: Final = "UNLISTED"
"""Replaces a reading for a word that the bundle does not list."""


def look_up(readings: NDArray[np.uint8], ids: NDArray[np.int32]) -> NDArray[np.uint8]:
    """Return the readings of words.

    Args:
        readings: Ints1d (words,), places in `READINGS`; see `Bundle.readings`.
        ids: Ints1d (n,) of words, -1 for unlisted words.

    Returns:
        Ints1d (n,), places in ``(*READINGS, UNLISTED)``.
    """
    found: NDArray[np.uint8] = readings[ids]  # the last word's for -1, overwritten
    found[ids < 0] = len(READINGS)
    return found


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
        readings: (n_words,) places in ``(*READINGS, UNLISTED)``, see `look_up`; values of
            marks and identifiers are ignored.

    Returns:
        (n_words,) numbers from 1 up to `LOOKS`.
    """
    import numpy as np

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
