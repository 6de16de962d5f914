"""Tells the names that programs use from names of persons: "ForeignKey", "Port 8080".

Words such as "key", "host" and "root" are also surnames. They pass in the name of a type that ends
as types do, and before a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sottovoce.core.privacy.packages import pinned
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark, listed_names
from sottovoce.core.text.words import Kind

_PARTS: Final = listed("type_parts")
"""Words of programs that are also names, or in no list."""
_ENDS: Final = listed("type_ends")
_LIMITS: Final = listed("type_limits")
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
_NUMBERED: Final = listed("numbered_things")


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
    return len(parts) >= _FEWEST and ends and all(part in _PARTS or marks(part) for part in rest)


def may_be_type(word: str) -> bool:
    """Return whether a word in small letters is one of programs, and no given name."""
    return word in _PARTS and not names.gender(word)


def is_numbered(sight: Sight, place: int) -> bool:
    """Return whether a word of programs stands before its number: "Port 8080", "Pod 3"."""
    after = place + 1
    return (
        sight.lower[place] in _NUMBERED
        and bool(sight.marks[place] & Mark.WORD)
        and after < len(sight.words)
        and sight.gaps[after] == " "
        and _NUMBER.fullmatch(sight.words[after].text) is not None
    )


def is_checked(sight: Sight, place: int) -> bool:
    """Return whether a number is compared with a result, or a version: "832040 == fib(30)"."""
    words, lower = sight.words, sight.lower
    compared = place > 1 and lower[place - 1] in _COMPARES and words[place - 2].kind is Kind.WORD
    if compared and not any(sight.gaps[place - 1 : place + 1]):
        return pinned(f"{words[place - 2].text}=={words[place].text}") is not None
    if lower[max(place - 1, 0) : place + 2 : 2] == ["==", "=="] and _PROCESS.fullmatch(
        lower[place]
    ):
        return True  # "==12345== HEAP SUMMARY"
    if not _RESULT.fullmatch(words[place].text):
        return False
    if lower[place + 1 : place + 2] == ["=="]:
        return lower[place + 3 : place + 4] == ["("] and lower[place + 2] in _FUNCTIONS
    if lower[max(place - 2, 0) : place] != [")", "=="]:
        return False
    near = range(place - 3, max(place - _LONGEST_CALL, 0), -1)
    opens = next((at for at in near if lower[at] == "("), 0)
    return opens > 0 and lower[opens - 1] in _FUNCTIONS
