"""Separates programs from persons, by the look of a line and by the words around a name.

A name in a program is rarely a person's, and a word with "@" rarely a handle. "Julia" and "Jenkins"
are also technologies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from typing import Final

from sottovoce.core.privacy.identifier_parts import part_marks
from sottovoce.core.privacy.identifying import compound
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import TITLES, listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Word

_CODE_LINE = re.compile(
    r"[;{}]\s*$|\w\(.*\)|^\s*(?:def|class|import|from|return|const|let|var|func|fn|public|#include"
    r"|select|insert|update|</?\w)"
    r"|^\s*(?:@\w+\s+)*(?:(?:pub(?:\(\w+\))?|private|protected|internal|override|data|sealed|suspend"
    r"|inline|open|abstract|static|final|lateinit|mutating)\s+)*(?:(?:enum|extension|fun|impl|interface"
    r"|mod|object|protocol|struct|trait|typealias|val|use|var)\s+\w+\s*[<({:=;]"
    r"|impl\s+\w+\s+for\s|va[lr]\s+\w+\s+by\s|(?:enum|interface|protocol|struct|trait)\s+\w+\s*$)|\w\s*(?:[=!<>+*/-]=|=>|->|::|&&|\|\|)\s*\w|\w\[\w",
    re.IGNORECASE,
)
_DECORATORS: Final = listed("decorators")
_RULE: Final = frozenset("|:- \t")
"""Signs of the line under the header of a table in Markdown."""
_LONGEST_LINE: Final = 1_000
_MOST_DECORATORS: Final = 8
_DOCUMENTED: Final = listed("doc_tags")
_OF_DECORATORS = re.compile(r"`| (?:annotation|decorator|directive)s?\b")


def in_code(document: str, start: int) -> bool:
    """Return whether the line of a word looks like a program's, or is the header of a table."""
    begin = document.rfind("\n", max(0, start - _LONGEST_LINE), start) + 1
    begin = max(begin, start - _LONGEST_LINE, 0)
    end = document.find("\n", start, start + _LONGEST_LINE)
    line = document[begin : end if end >= 0 else start + _LONGEST_LINE]
    below = document[end + 1 : end + _LONGEST_LINE].partition("\n")[0] if end >= 0 else ""
    header = "|" in below and "-" in below and _RULE.issuperset(below)
    return header or _CODE_LINE.search(line) is not None


def is_decorator(document: str, word: Word) -> bool:
    """Return whether a word with "@" is of a program: "@dataclass", "`@media`"."""
    if word.text[1:] in _DECORATORS:
        return True
    if not compound(word.text[1:], part_marks):
        return False
    begin = document.rfind("\n", max(word.start - _LONGEST_LINE, 0), word.start) + 1
    line = document[word.end : word.end + _LONGEST_LINE].partition("\n")[0]
    if _OF_DECORATORS.match(line) or line[:2] in ("='", '="'):
        return True
    before = document[begin : word.start].strip()
    if before:  # of a comment: " * @param x"
        return not before.strip("*/#") and word.text[1:] in _DOCUMENTED
    if line.strip():
        return in_code(document, word.start)
    at = word.end + len(line) + 1
    for _ in range(_MOST_DECORATORS):
        if document[at : at + _LONGEST_LINE].lstrip()[:1] != "@":
            break
        at = (document.find("\n", at, at + _LONGEST_LINE) + 1) or len(document)
    return in_code(document, at)


_TECHNOLOGIES: Final = listed("technologies")
"""Languages, tools and systems, many of which are also names of persons."""
_OF_TECHNOLOGIES: Final = listed("of_technologies")
_TECHNICAL: Final = listed("technical")
_USING: Final = listed("using")
_WITHIN: Final = frozenset({"in", "into", "on", "via"})
_COMPARING: Final = listed("comparing")
_THAN: Final = frozenset({"than", "versus", "vs", "like", "instead"})
_FIRST_PERSONS: Final = listed("first_persons") | {"he", "she", "they"}
_ACTS: Final = listed("person_verbs") | listed("does")
_BEFORE_PERSONS: Final = (
    TITLES | listed("relations") | listed("addressed") | listed("dealing") | listed("person_keys")
)
_NEAR: Final = 8
_MOST_BETWEEN: Final = 2
_LISTING: Final = frozenset({",", "/", "and", "&", "or", "than", "vs", "versus"})


def technologies(sight: Sight, hides: Sequence[str], known: Set[str]) -> Iterator[int]:
    """Yield the places of technologies that are also names: "Julia or Haskell", "Jenkins pipeline".

    Such a word passes before a noun such as "pipeline", after a verb such as "install", and in a
    technical text after "in". It passes in rows of technologies, and where a sentence without
    persons compares it with one. Then it passes in the whole text, except if one mention reads like
    a person's: "my colleague Julia", "Julia said", "Julia Kerr".

    Args:
        hides: what each word hides.
        known: parts of names, in small letters, that the conversation hid before.
    """
    spots = [place for place, lower in enumerate(sight.lower) if lower in _TECHNOLOGIES]
    if not any(hides[place] for place in spots):
        return
    technical = not _TECHNICAL.isdisjoint(sight.lower)
    named = known | {sight.lower[place] for place in spots if _is_named(sight, place)}
    spots = [place for place in spots if sight.lower[place] not in named]
    told = {sight.lower[at] for at in spots if _is_technology(sight, at, technical=technical)}
    told |= {sight.lower[place] for place in spots if _is_compared(sight, hides, place)}
    sure = technical or not _COMPARING.isdisjoint(sight.lower)
    for row in _rows(sight, spots):
        lower = {sight.lower[place] for place in row}
        plain = any(not sight.marks[place] & Mark.NAME for place in row)
        if plain or lower & told or (sure and not all(map(names.gender, lower))):
            told |= lower
    yield from (place for place in spots if sight.lower[place] in told)


def _is_named(sight: Sight, place: int) -> bool:
    """Return whether a word reads like a person, part of a longer name, or an owner."""
    before = sight.lower[place - 1] if place and not sight.breaks(place) else ""
    after = place + 1 if place + 1 < len(sight.words) and not sight.breaks(place + 1) else None
    if before in _BEFORE_PERSONS or before == "@":
        return True
    if after and (sight.lower[after] in _ACTS or sight.words[after].clitic):
        return True
    return any(
        sight.gaps[edge] in ("", " ")
        and sight.capital(other)
        and not (sight.lower[other] in _TECHNOLOGIES or sight.begins(other))
        for other, edge in ((place - 1, place), (after or 0, after or 0))
        if other > -1 and edge
    )


def _is_technology(sight: Sight, place: int, *, technical: bool) -> bool:
    after = place + 1
    noun = after < len(sight.words) and sight.gaps[after] == " "
    if noun and sight.lower[after] in _OF_TECHNOLOGIES:
        return True
    before = sight.lower[place - 1] if place else ""
    return before in _USING or (technical and before in _WITHIN)


def _is_compared(sight: Sight, hides: Sequence[str], place: int) -> bool:
    """Return whether a sentence compares a word with a technology: "Is Julia as fast as NumPy?"."""
    begin, end = place, place + 1
    while begin > max(place - _NEAR, 0) and not sight.begins(begin):
        begin -= 1
    while end < min(place + _NEAR, len(hides)) and not sight.begins(end):
        end += 1
    before, after = sight.lower[begin:place], sight.lower[place + 1 : end]
    compares = not _COMPARING.isdisjoint(before) or not _THAN.isdisjoint(after)
    if not compares or not _FIRST_PERSONS.isdisjoint(sight.lower[begin:end]):
        return False
    others = [at for at in range(begin, end) if sight.lower[at] != sight.lower[place]]
    if any(hides[at] == "persons" and sight.lower[at] not in _TECHNOLOGIES for at in others):
        return False
    return any(
        sight.lower[at] in _TECHNOLOGIES and not hides[at] and not names.gender(sight.lower[at])
        for at in others
    )


def _rows(sight: Sight, spots: Sequence[int]) -> Iterator[list[int]]:
    """Yield rows of at least two technologies."""
    row: list[int] = []
    for place in (*spots, len(sight.words) + _NEAR):
        between = sight.lower[row[-1] + 1 : place] if row else ()
        if row and not (0 < len(between) <= _MOST_BETWEEN and _LISTING.issuperset(between)):
            if len(row) > 1:
                yield row
            row = []
        row.append(place)
