"""Carries the case of a word over to the word that replaces it.

Replacements come from the list in the list's case. Without their capitals, a text reads badly and
tags badly on the other side. Only three shapes are carried over, because the shape is published. A
reader of the release learns that a word was capitalised, hence likely a name or the first of a
sentence. `docs/privacy.md` counts it as a leak.
"""

from __future__ import annotations

import enum

__all__ = ["Case", "apply", "shape"]


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
