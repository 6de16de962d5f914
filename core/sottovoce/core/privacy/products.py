"""Public things that are named like persons: "Julia or Haskell", "Opel Corsa", "a Labrador".

The words around such a name tell whether it is a person. Whatever is unclear stays a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import TITLES, listed
from sottovoce.core.text.vocabulary import Listed, Mark, listed_names
from sottovoce.core.text.words import Kind

_MAKERS: Final = listed("makers")
_TECHNOLOGIES: Final = listed("technologies")
"""Languages, tools and systems, many of which are also names of persons."""
_OF_TECHNOLOGIES: Final = listed("of_technologies")
_TECHNICAL: Final = listed("technical")
_USING: Final = listed("using")
_COMPARING: Final = listed("comparing")
_PRONOUNS: Final = frozenset({"he", "she", "his", "her", "him", "hers", "they", "them"})
_OF_PERSONS: Final = (
    _PRONOUNS
    | (listed("relations") | listed("private") | listed("people") - listed("first_persons"))
    | {"candidate", "candidates", "feedback", "interview", "interviews", "role", "team", "teams"}
)
"""Words of a text in which a given name is no technology."""
_ACTS: Final = listed("person_verbs") | listed("does")
_BEFORE_PERSONS: Final = (
    TITLES | listed("relations") | listed("addressed") | listed("dealing") | listed("person_keys")
)
_NEAR: Final = 8
_MOST_BETWEEN: Final = 2
_LISTING: Final = frozenset({",", "/", "and", "&", "or", "than", "vs", "versus"})


def technologies(sight: Sight, hides: Sequence[str], known: Set[str]) -> Iterator[int]:
    """Yield the places of technologies that are also names: "Julia or Haskell", "Jenkins pipeline".

    Such a word passes before a noun such as "pipeline", after a verb such as "install", in a
    technical text after "in", in a row with another technology, and after or before "than" and one.
    A given name passes only in a text that tells of no person, and that is technical or has a
    technology that is no name. One mention that reads like a person's keeps all hidden: "my
    colleague Julia", "Julia said", "Julia Kerr".

    Args:
        hides: what each word hides.
        known: parts of names, in small letters, that the conversation hid before.
    """
    spots = [place for place, lower in enumerate(sight.lower) if lower in _TECHNOLOGIES]
    if not any(hides[place] for place in spots):
        return
    plain = {
        sight.lower[place]
        for place in spots
        if not sight.marks[place] & Mark.NAME and not is_usual(sight.lower[place])
    }
    technical = bool(plain) or not _TECHNICAL.isdisjoint(sight.lower)
    named = known | {sight.lower[place] for place in spots if _is_named(sight, place)}
    if not _OF_PERSONS.isdisjoint(sight.lower):
        named |= {sight.lower[place] for place in spots if is_usual(sight.lower[place])}
    spots = [place for place in spots if sight.lower[place] not in named]
    told = {sight.lower[at] for at in spots if _is_technology(sight, at, technical=technical)}
    compared = technical or not _COMPARING.isdisjoint(sight.lower)
    for row in _rows(sight, spots):
        lower = {sight.lower[place] for place in row}
        usual = sum(map(is_usual, lower))
        if lower & told or (compared and 2 * usual <= len(lower)) or (lower & plain and technical):
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
    after = sight.lower[place + 1] if place + 1 < len(sight.words) else ""
    before = sight.lower[place - 1] if place else ""
    if after in _OF_TECHNOLOGIES or (before == "learn" and not sight.breaks(place)):
        return True
    compared = any(
        than in (*_LISTING, "as", "from", "to") and other in _TECHNOLOGIES
        for than, other in (pairwise(sight.lower[place + 1 : place + _NEAR]) if technical else ())
        if not is_usual(other)
    )
    return technical and (before in _USING or compared)


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


def stands_alone(sight: Sight, place: int) -> bool:
    """Return whether no other word with a capital stands beside a word, but public ones."""
    return not any(
        0 <= other < len(sight.words)
        and sight.capital(other)
        and not sight.breaks(edge)
        and sight.marks[other] & (Mark.PUBLIC | Mark.NAME) != Mark.PUBLIC
        and not (other > place and _is_model(sight, other))
        for other, edge in ((place - 1, place), (place + 1, place + 1))
    )


_MODEL = re.compile(r"(?=.{1,8}\Z)[A-Z]{0,3}-?\d{1,4}[A-Za-z]{0,3}")
_COUNTING: Final = frozenset({"a", "an", "my"})


def is_counted(sight: Sight, place: int) -> bool:
    """Return whether a capital that is no usual name stands alone after "a" or "my"."""
    if not place or not sight.capital(place) or sight.lower[place - 1] not in _COUNTING:
        return False
    last = place + 1 == len(sight.words) or sight.breaks(place + 1)
    return (last or not sight.capital(place + 1)) and not is_usual(sight.lower[place])


def is_usual(name: str) -> bool:
    """Return whether a word is listed as a given name or as one of the commonest surnames."""
    return listed_names(name) & (Listed.USUAL_SURNAME | Listed.GIVEN) != 0


def is_product(sight: Sight, place: int) -> bool:
    """Return whether a word is a maker before its product, or that product: "Opel Corsa"."""
    return _is_model(sight, place) or _is_model(sight, place + 1)


def _is_model(sight: Sight, place: int) -> bool:
    """Return whether a word is a product of the maker before it: "Corsa", "A4"."""
    if not 0 < place < len(sight.words) or sight.lower[place - 1] not in _MAKERS:
        return False
    if sight.gaps[place] != " " or not sight.capital(place - 1):
        return False
    if sight.words[place].kind is Kind.IDENTIFIER:
        return _MODEL.fullmatch(sight.words[place].text) is not None
    if not sight.capital(place):
        return False
    last = place + 1 == len(sight.words) or sight.breaks(place + 1)
    acts = not last and sight.gaps[place + 1] == " " and sight.lower[place + 1] in _ACTS
    town = listed_names(sight.lower[place]) & (Listed.TOWN | Listed.LARGE_CITY)
    return not acts and not town and not is_usual(sight.lower[place])
