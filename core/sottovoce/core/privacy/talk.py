"""Finds given names that are words too, by what people say around them.

A finder reads "hey its mo", "tell storm to call" and "Rain (wife)" as ordinary words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sottovoce.core.privacy.persons import BEDS
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import TITLES, Sign, listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Listed, Mark, listed_names
from sottovoce.core.text.words import Kind

_PERSON: Final = "persons"
_SAID: Final = listed("said_verbs")
_BEFORE_SUBJECTS: Final = listed("before_subjects")
"""What stands before a subject in small letters: "so fern said"."""
_ROOM = re.compile(r"\d{1,3}[a-z]?")
_TOLD: Final = frozenset({"ask", "asked", "remind", "reminded", "tell", "telling", "told"})
_AFTER_TOLD: Final = listed("after_told")
"""What follows the person that one tells or asks something."""
_AFTER_NAMES: Final = listed("finite") | {
    *".,!?;)",
    "and",
    "at",
    "for",
    "in",
    "left",
    "on",
    "to",
    "who",
    "with",
}
_IN_SENTENCES: Final = listed("in_sentences") | listed("asking") | {"i", "an", "my"}
_SUBJECTS: Final = frozenset({"he", "i", "it", "she", "they", "we", "you"})
_AUXILIARIES: Final = frozenset({"can", "may", "will"})
_GREETED: Final = frozenset({"hello", "hey", "hi", "hiya", "yo"})
_GREETED_TOO: Final = frozenset({",", "!", "all", "again", "everyone", "guys", "love", "there"})
_AFTER_SELF: Final = frozenset({",", ".", "!", "-", "again", "from", "here"})
_DETERMINERS: Final = frozenset({"a", "an", "the"})
_GROUPS: Final = listed("told_groups")
_FAMILY: Final = listed("family")
_PETS: Final = listed("pets")
_CLOSE: Final = (_FAMILY | _PETS) | {
    "boss",
    "colleague",
    "flatmate",
    "friend",
    "neighbor",
    "neighbour",
}
_WHOSE: Final = frozenset({"her", "his", "my", "our", "the", "their", "your"})
_NO_RELATIVES: Final = (
    listed("person_keys") | listed("contact_keys") | listed("relations") | TITLES
) | {"home", "work", "emergency"}
_PRONOUNS: Final = frozenset({"he", "she", "they"})


def talk(sight: Sight) -> Iterator[Sign]:
    """Yield the names of persons that somebody tells, lets know, quotes, greets or relates to."""
    lower, last = sight.lower, len(sight.words) - 1
    for place, word in enumerate(lower):
        kind = sight.words[place].kind
        if kind is Kind.IDENTIFIER and _ROOM.fullmatch(word) and _has_guest(sight, place):
            yield Sign(place + 1, _PERSON)
        if word == "(" and 0 < place < last and _is_relative(sight, place):
            yield Sign(place - 1, _PERSON)
        if kind is not Kind.WORD:
            continue
        if place == last or sight.breaks(place + 1):
            continue
        after = lower[place + 1]
        before = lower[place - 1] if place and not sight.breaks(place) else "."
        says = after in _SAID and (sight.words[place].text.istitle() or before in _BEFORE_SUBJECTS)
        if says and _is_given(sight, place):
            yield Sign(place, _PERSON)
        if word in _TOLD and (not place or lower[place - 1] not in _DETERMINERS):
            yield from _told(sight, place + 1)
        if word == "let" and place + 2 <= last and lower[place + 2] == "know":
            lists = listed_names(after) & ~(Listed.TOWN | Listed.LARGE_CITY | Listed.PART)
            if lists and after not in _GROUPS:
                yield Sign(place + 1, _PERSON)
        if word in _CLOSE and place and before in _WHOSE - {"the"} and _is_close(sight, place + 1):
            yield Sign(place + 1, _PERSON)
        if word in _GREETED:
            yield from _self(sight, place + 1)


def _has_guest(sight: Sight, place: int) -> bool:
    """Return whether a given name follows the number of a bed or room: "Bed 3 Faith"."""
    last = place + 1 == len(sight.words)
    numbered = place > 0 and sight.lower[place - 1] in BEDS
    return (
        numbered
        and not last
        and not sight.breaks(place + 1)
        and sight.capital(place + 1)
        and _is_given(sight, place + 1)
    )


def _told(sight: Sight, place: int) -> Iterator[Sign]:
    """Yield names after "tell" and the like: "tell rose and storm that"."""
    found: list[Sign] = []
    while place < len(sight.words) and _is_given(sight, place) and not sight.breaks(place):
        found.append(Sign(place, _PERSON))
        place += 1
        if place + 1 >= len(sight.words) or sight.lower[place] not in ("and", ",", "&", "or"):
            break
        if not _is_given(sight, place + 1):
            break
        place += 1
    after = sight.lower[place] if place < len(sight.words) else "."
    if found and after in _SUBJECTS and sight.lower[place - 1] in _AUXILIARIES:
        return  # "ask will it rain"
    if found and after in _AFTER_TOLD:
        yield from found


def _self(sight: Sight, place: int) -> Iterator[Sign]:
    """Yield who writes, after a greeting: "hey its mo", "hi there this is storm"."""
    end = len(sight.words)
    while place < end and sight.lower[place] in _GREETED_TOO:
        place += 1
    pair = sight.lower[place : place + 2]
    if pair[:1] == ["its"]:
        at = place + 1
    elif pair in (["it", "'s"], ["it", "’s"], ["this", "is"]):
        at = place + 2
    else:
        return
    ends = at + 1 == end or (
        at + 1 < end and (sight.breaks(at + 1) or sight.lower[at + 1] in _AFTER_SELF)
    )
    if ends and _is_given(sight, at):
        yield Sign(at, _PERSON)


def _is_relative(sight: Sight, bracket: int) -> bool:
    """Return whether a relation in brackets follows a capital: "Rain (wife)", "Bliss (she/her)"."""
    name, at = bracket - 1, bracket + 1
    at += sight.lower[at] in _WHOSE and at + 1 < len(sight.words)
    after = sight.lower[at + 1] if at + 1 < len(sight.words) else ""
    told = (sight.lower[at] in _FAMILY and after in (")", ",")) or (
        sight.lower[at] in _PRONOUNS and after == "/"
    )
    return (
        told
        and sight.words[name].kind is Kind.WORD
        and sight.words[name].text.istitle()
        and not sight.breaks(bracket)
        and sight.lower[name] not in _NO_RELATIVES
    )


def _is_close(sight: Sight, place: int) -> bool:
    """Return whether a capital is the name of a relation or pet: "my cousin Sparky"."""
    marks, last = sight.marks[place], place + 1 == len(sight.words)
    after = "." if last or sight.breaks(place + 1) else sight.lower[place + 1]
    if not sight.words[place].text.istitle() or sight.gaps[place] != " ":
        return False
    if sight.lower[place] in _IN_SENTENCES or after in _SUBJECTS:
        return False  # "My wife Will you marry me"
    if not marks or _is_given(sight, place) or sight.lower[place - 1] in _PETS:
        return not marks & (Mark.DATE | Mark.ORIGIN)
    other = Mark.ORIGIN | Mark.TITLE | Mark.DATE | Mark.PUBLIC
    return not marks & other and (after in _AFTER_NAMES or after in _SAID)


def _is_given(sight: Sight, place: int) -> bool:
    """Return whether a word is a given name, but no day or month in small letters."""
    marks = sight.marks[place]
    dated = marks & Mark.DATE and not sight.capital(place)
    return bool(marks & Mark.NAME and not dated and names.gender(sight.lower[place]))
