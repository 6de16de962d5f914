"""Hides the rest of a person once a part of the name was found: later mentions, and initials.

A finder weighs each mention by itself. "Rose Kerr" is found, and a later "tell Rose" or "N. Kerr"
need not be.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from sottovoce.core.privacy.signs import GREETING, TITLES, Sight
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Kind

__all__ = ["hide_again", "hide_initials", "pass_titles"]

_PERSONS: Final = "persons"
_ENDS: Final = frozenset('.!?:;•*-|#>"“')
_OTHERS: Final = ~(Mark.WORD | Mark.NAME | Mark.COMMON)


def hide_again(sight: Sight, hides: list[str], known: Set[str]) -> None:
    """Hide words that are parts of known names.

    An ordinary word is hidden only if it has a capital within a sentence.

    Args:
        sight: the words.
        hides: what each word hides; changed.
        known: parts of names, in small letters, that the conversation hid before.
    """
    found = {sight.lower[place] for place, hidden in enumerate(hides) if hidden == _PERSONS}
    found |= known
    for place, hidden in enumerate(hides):
        word = sight.words[place]
        if hidden not in ("", "secrets") and not any(map(str.isalnum, word.text)):
            hides[place] = ""  # a sign, which an answer would not get back
        if hidden or sight.lower[place] not in found or word.kind is not Kind.WORD or word.clitic:
            continue
        marks = sight.marks[place] & ~Mark.NAME
        begins = not place or sight.breaks(place) or sight.words[place - 1].text[0] in _ENDS
        ordinary = marks and (marks & _OTHERS or begins or not sight.capital(place))
        if not ordinary and len(word.text) > 1:
            hides[place] = _PERSONS


def hide_initials(sight: Sight, hides: list[str]) -> None:
    """Hide single capitals with a full stop before the part of a person's name: "N. Kerr"."""
    for place in range(len(hides) - 3, -1, -1):
        word, stop = sight.words[place : place + 2]
        initial = len(word.text) == 1 and word.text.isupper() and word.kind is Kind.WORD
        near = not sight.gaps[place + 1] and sight.gaps[place + 2] in ("", " ")
        named = hides[place + 2] == _PERSONS and sight.capital(place + 2)
        if initial and stop.text == "." and near and named and not hides[place]:
            hides[place] = _PERSONS


def pass_titles(sight: Sight, hides: list[str]) -> None:
    """Let titles and greetings pass before a person's name: "Dear Dr Elena Marsh"."""
    for place in range(len(hides) - 2, -1, -1):
        after = place + 1
        if sight.words[after].text == "." and after + 1 < len(hides):
            after += 1
        title = sight.lower[place] in TITLES or sight.lower[place] in GREETING
        if title and hides[place] == _PERSONS and not sight.breaks(after):
            before_name = hides[after] == _PERSONS or sight.lower[after] in TITLES
            hides[place] = "" if before_name else _PERSONS
