"""Hides the rest of a person once a part of the name was found: later mentions, and initials.

A finder weighs each mention by itself. "Rose Kerr" is found, and a later "tell Rose" or "N. Kerr"
need not be.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from sottovoce.core.privacy.public_cities import is_city
from sottovoce.core.privacy.signs import GREETING, TITLES, Sight, listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Kind

__all__ = ["hide_again", "hide_initials", "name_persons", "pass_titles"]

_PERSON: Final = "persons"
_ENDS: Final = frozenset('.!?:;•*-|#>"“')
_PLACE: Final = "places"
_SAY: Final = listed("person_verbs")
"""Verbs that only persons are the subject of."""
_ADDRESS: Final = listed("addressed")
"""Verbs that only persons are the object of."""
_OWNED: Final = listed("owned") | listed("relations")
"""What belongs to persons: "Milo's room"."""
_WHERE: Final = listed("where")
"""What stands before places."""
_BEING: Final = frozenset({"is", "was", "'s", "’s"})
_POSSESSIVES: Final = frozenset({"my", "our", "her", "his", "their", "your"})
_OTHERS: Final = ~(Mark.WORD | Mark.NAME | Mark.COMMON)


def hide_again(sight: Sight, hides: list[str], known: Set[str]) -> None:
    """Hide words that are parts of known names.

    An ordinary word is hidden only if it has a capital within a sentence.

    Args:
        sight: the words.
        hides: what each word hides; changed.
        known: parts of names, in small letters, that the conversation hid before.
    """
    found = {sight.lower[place] for place, hidden in enumerate(hides) if hidden == _PERSON}
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
            hides[place] = _PERSON


def hide_initials(sight: Sight, hides: list[str]) -> None:
    """Hide single capitals with a full stop before the part of a person's name: "N. Kerr"."""
    for place in range(len(hides) - 3, -1, -1):
        word, stop = sight.words[place : place + 2]
        initial = len(word.text) == 1 and word.text.isupper() and word.kind is Kind.WORD
        near = not sight.gaps[place + 1] and sight.gaps[place + 2] in ("", " ")
        named = hides[place + 2] == _PERSON and sight.capital(place + 2)
        if initial and stop.text == "." and near and named and not hides[place]:
            hides[place] = _PERSON


def pass_titles(sight: Sight, hides: list[str]) -> None:
    """Let titles and greetings pass before a person's name: "Dear Dr Elena Marsh"."""
    for place in range(len(hides) - 2, -1, -1):
        after = place + 1
        if sight.words[after].text == "." and after + 1 < len(hides):
            after += 1
        title = sight.lower[place] in TITLES or sight.lower[place] in GREETING
        if title and hides[place] == _PERSON and not sight.breaks(after):
            before_name = hides[after] == _PERSON or sight.lower[after] in TITLES
            hides[place] = "" if before_name else _PERSON


def name_persons(sight: Sight, hides: list[str]) -> None:
    """Call given names persons that a finder takes for places: "Chelsea said", "Milo's room".

    Args:
        sight: the words.
        hides: what each word hides; changed. A large city is a place unless a sign tells more.
    """
    changed = _PLACE in hides
    while changed:
        persons = {sight.lower[at] for at, hidden in enumerate(hides) if hidden == _PERSON}
        changed = False
        for place, hidden in enumerate(hides):
            if hidden == _PLACE and _is_person(sight, hides, place, persons):
                hides[place], changed = _PERSON, True


def _is_person(sight: Sight, hides: list[str], place: int, persons: Set[str]) -> bool:
    lower, end = sight.lower, len(hides)
    if sight.words[place].kind is not Kind.WORD or not names.gender(lower[place]):
        return False
    before = lower[place - 1] if place and not sight.breaks(place) else ""
    after, then = (lower[at] if at < end else "" for at in range(place + 1, place + 3))
    if any(0 <= at < end and hides[at] == _PLACE for at in (place - 1, place + 1)):
        return False  # part of a longer name
    if after in ("'s", "’s") and then in _OWNED:
        return True
    if before in _WHERE:
        return False
    if after in _SAY or before in _ADDRESS or (after in _BEING and then in _POSSESSIVES):
        return True
    if before in ("and", "or", "&") and place > 1 and hides[place - 2] == _PERSON:
        return True
    if after in ("and", "or", "&") and place + 2 < end and hides[place + 2] == _PERSON:
        return True
    return lower[place] in persons or not is_city(lower[place])
