"""Tells the names that programs use from names of persons: "ForeignKey", "Port 8080".

Words such as "key", "host" and "root" are also surnames. They pass in the name of a type that ends
as types do, and before a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sottovoce.core.privacy.identifier_parts import part_marks
from sottovoce.core.privacy.identifying import compound
from sottovoce.core.privacy.packages import pinned
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Listed, Mark, listed_names
from sottovoce.core.text.words import Kind

_PARTS: Final = listed("type_parts")
"""Words of programs that are also names, or in no list."""
_ENDS: Final = listed("type_ends")
_LIMITS: Final = listed("type_limits")
_OF_COMPANIES: Final = frozenset({"force", "group", "host", "point", "time"})
"""Ends of names of companies, too; no word before them may be a name: "KeyHost"."""
_BOUNDS: Final = frozenset({"max", "min"})
"""Given names that also begin the name of a limit: "MaxAuthTries"."""
_CUT = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+")
_PLAIN = re.compile(r"(?:[A-Z][a-z]*+){2,80}+")
_FEWEST: Final = 2
_NUMBER = re.compile(r"#?\d{1,5}")
_COMPARES: Final = frozenset({">=", "<=", "~=", "==", "!=", "<", ">"})
_RESULT = re.compile(r"[1-9]\d{4,14}")
_PROCESS = re.compile(r"\d{4,6}")
_FUNCTIONS: Final = listed("functions")
_LONGEST_CALL: Final = 8
_NEAR_LINES: Final = 200
_SHORTEST_CALL: Final = 4
_KEYS: Final = (listed("number_keys") | listed("contact_keys")) - {"mac", "no", "number", "order"}
_NEAR_KEY: Final = 8
_VERSION = re.compile(r"([\w.-]+[=~!]=)?\d{1,4}(?:\.\d{1,4}){1,2}")
_NEAR_PIN: Final = 30
_INSTALLERS: Final = frozenset({"conda", "pip", "pip3", "pipx", "requirements", "requirements.txt"})
_NUMBERED: Final = listed("numbered_things")
_DO: Final = (listed("person_verbs") | {"fired", "hired", "owed", "owes"}) - {"calls", "listens"}
_AUXILIARIES: Final = frozenset({"got", "has", "was"})
_USUAL: Final = Listed.USUAL_GIVEN | Listed.USUAL_SURNAME


def is_type(text: str, marks: Callable[[str], int], *, likely: bool) -> bool:
    """Return whether the words of a compound make up the name of a type or a setting.

    Each word is listed and no name, or is a word of programs. The last one is a word that types
    end in, so "KeyDental" is none. "Max" and "Min" count before a limit.

    Args:
        text: the compound.
        marks: returns the marks of a word that is no name; 0 for others.
        likely: whether the finder takes it for a name. Then the last word must be one that
            companies rarely end in.
    """
    if not _PLAIN.fullmatch(text) or listed_names(text.lower()):
        return False
    parts = [part.lower() for part in _CUT.findall(text)]
    bound = parts[0] in _BOUNDS and parts[-1] in _LIMITS
    rest = parts[1:] if bound else parts
    ends = bound or parts[-1] in _ENDS or (not likely and parts[-1] in _PARTS)
    known = _PARTS if bound or parts[-1] not in _OF_COMPANIES else {parts[-1]}
    return len(parts) >= _FEWEST and ends and all(part in known or marks(part) for part in rest)


def may_be_type(word: str) -> bool:
    """Return whether a word in small letters is one of programs, and no given name."""
    return word in _PARTS and not names.gender(word) and not listed_names(word) & _USUAL


def is_numbered(sight: Sight, place: int) -> bool:
    """Return whether a word of programs stands before its number: "Port 8080", "Pod 3"."""
    after = place + 1
    numbered = (
        sight.lower[place] in _NUMBERED
        and bool(sight.marks[place] & Mark.WORD)
        and after < len(sight.words)
        and sight.gaps[after] == " "
        and _NUMBER.fullmatch(sight.words[after].text) is not None
    )
    verb = after + 1 + (not _AUXILIARIES.isdisjoint(sight.lower[after + 1 : after + 2]))
    return numbered and _DO.isdisjoint(sight.lower[verb : verb + 1])  # "Host 44 was fired"


def is_checked(sight: Sight, place: int) -> bool:
    """Return whether a number is compared with a result, or a version: "832040 == fib(30)"."""
    words, lower = sight.words, sight.lower
    text = words[place].text
    if pin := pinned(text, listed=True):
        return compound(pin, part_marks) and _is_listed(sight, place)
    compared = place > 1 and lower[place - 1] in _COMPARES and words[place - 2].kind is Kind.WORD
    if compared and not any(sight.gaps[place - 1 : place + 1]):
        listed_pin = _is_listed(sight, place)
        return pinned(f"{words[place - 2].text}=={text}", listed=listed_pin) is not None
    if lower[max(place - 1, 0) : place + 2 : 2] == ["==", "=="] and _PROCESS.fullmatch(text):
        lines = range(max(place - _NEAR_LINES, 1), min(place + _NEAR_LINES, len(words) - 2))
        return any(words[at].text == text and _heads(sight, at) for at in lines)
    near = lower[max(place - _NEAR_KEY, 0) : place + _NEAR_KEY]
    if not _RESULT.fullmatch(text) or not _KEYS.isdisjoint(near):
        return False
    if lower[place + 1 : place + 2] == ["=="]:
        return _is_call(sight, place + 2)
    if lower[max(place - 2, 0) : place] != [")", "=="]:
        return False
    close = place - 2
    opens = next(
        (at for at in range(close, max(close - _LONGEST_CALL, 0), -1) if lower[at] == "("), 0
    )
    return opens > 0 and _is_call(sight, opens - 1)


def _heads(sight: Sight, place: int) -> bool:
    """Return whether a number stands as the heads of lines of Valgrind do: "==12345== HEAP"."""
    begins = place == 1 or sight.breaks(place - 1)
    marked = sight.lower[place - 1 : place + 2 : 2] == ["==", "=="]
    return begins and marked and sight.capital(place + 2) and not sight.breaks(place + 2)


def _is_call(sight: Sight, place: int) -> bool:
    """Return whether a function of numbers alone is called at a place: "fib(30)"."""
    call = sight.lower[place : place + _LONGEST_CALL]
    if len(call) < _SHORTEST_CALL or call[0] not in _FUNCTIONS or call[1] != "(":
        return False
    inside = call[2 : call.index(")")] if ")" in call else ["?"]
    return not any(any(map(str.isalpha, word)) for word in inside) and inside != ["?"]


def _is_listed(sight: Sight, place: int) -> bool:
    """Return whether a version stands among other packages or after the name of an installer."""
    near = range(max(place - _NEAR_PIN, 0), min(place + _NEAR_PIN, len(sight.words)))
    if not _INSTALLERS.isdisjoint(sight.lower[near.start : near.stop]):
        return True
    for at in near:
        other = _VERSION.fullmatch(sight.words[at].text) if at != place else None
        if other and (other[1] or (at and sight.lower[at - 1] in _COMPARES)):
            return True
    return False
