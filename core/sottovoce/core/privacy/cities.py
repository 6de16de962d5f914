"""Lets large cities, regions, clubs and the like pass in questions.

A city alone says where something is, and a question about it cannot be answered without it: "How
far is Perth from Sydney?" The city of a person must not pass: "I moved to Perth last year". So a
city passes only in a short question that holds nothing personal, and in which nothing else is
drawn. First persons are allowed beside a word of travel.

The conversation counts as well. Once a name or number of a person was drawn in it, cities are drawn
from then on. A city that passed before still passes in questions, so that a client may send them
again.

The lists are `public_cities.txt`, cities of over 500,000 inhabitants and capitals of over 100,000,
and `public_names.txt`, regions, clubs, universities and the like.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence, Set
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.products import is_usual
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import listed
from sottovoce.core.privacy.surrogates import names

_PLACE: Final = "places"
_LONGEST: Final = 1_000
"""Characters of a text in which a city may pass; a letter or a story is longer."""
_MOST_WORDS: Final = 4
"""Words of the longest name: "Ho Chi Minh City"."""
_PROBABILITY: Final = 0.5
"""The least that the finder must give a city that is also the name of persons: "Paris"."""
_NAMES: Final = frozenset({_PLACE, "persons", "organisations", "unlisted"})
"""What a finder may take a city for."""
_ASKING: Final = listed("asking")
_FIRST: Final = listed("first_persons")
_TRAVEL: Final = listed("travel")
_LIVING: Final = (
    listed("living")
    | listed("relations")
    | (listed("who") | listed("people")) - listed("first_persons")
)
"""Words that tell of somebody's home, work, family or origin."""
OF_PERSONS: Final = listed("private") | listed("of_persons") | listed("employed")
"""Words of a text in which a club, a brand or a work may be a person or an employer."""
_CHILDREN: Final = frozenset({"child", "children", "kid", "kids", "toddler"})
_FOR_ANYBODY: Final = frozenset({"a", "any", "for", "small", "three", "to", "two", "with", "young"})
_FIELD: Final = frozenset(":=|<>@/\\\"'“”‘’`;#")
"""What stands before the value of a field."""


def plain_city(name: str) -> str:
    """Return how a city is listed: in small letters without accents.

    >>> plain_city("São Paulo")
    'sao paulo'
    """
    letters = unicodedata.normalize("NFKD", name.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def is_city(name: str) -> bool:
    """Return whether a large city has this name.

    >>> is_city("Perth"), is_city("New York"), is_city("Todmorden")
    (True, True, False)
    """
    return f"\n{plain_city(name)}\n" in _lines("public_cities.txt")


def pass_cities(
    document: str, sight: Sight, hides: list[str], places: Sequence[float], past: Set[str] | None
) -> set[str]:
    """Let the large cities of a question pass, and return their names in small letters.

    Args:
        document: the whole text.
        hides: what each word hides; changed.
        places: the finder's probability that each word is a place.
        past: the cities that passed before, if the conversation drew names or numbers; else None.
    """
    if len(document) > _LONGEST or _NAMES.isdisjoint(hides):
        return set()
    if not _is_whole(document, sight):
        return set()
    found = [*_found(sight, hides, places)]
    drawn = {place for place, hidden in enumerate(hides) if hidden}
    if not found or drawn - {place for span in found for place in span}:
        return set()
    if not _asks(sight) or _tells(sight, {place for span in found for place in span}):
        return set()
    if not _FIRST.isdisjoint(sight.lower) and _TRAVEL.isdisjoint(sight.lower):
        return set()
    cities = {plain_city(" ".join(sight.lower[place] for place in span)) for span in found}
    if past is not None and not cities <= past:
        return set()
    for span in found:
        hides[span.start : span.stop] = [""] * len(span)
    return cities


def tells_of_home(document: str, sight: Sight) -> bool:
    """Return whether a text tells of a home, work or family; a window of a longer text may."""
    return not _is_whole(document, sight) or _tells(sight)


def _tells(sight: Sight, named: Set[int] = frozenset()) -> bool:
    """Return whether a word outside a name tells of a home or a family; "for kids" does not."""
    return any(
        lower in _LIVING
        and place not in named
        and not (lower in _CHILDREN and place and sight.lower[place - 1] in _FOR_ANYBODY)
        for place, lower in enumerate(sight.lower)
    )


def _is_whole(document: str, sight: Sight) -> bool:
    """Return whether the words make up the whole text. Otherwise they are a window into it."""
    first, last = sight.words[0], sight.words[-1]
    return not document[: first.start].strip() and not document[last.end :].strip()


def _asks(sight: Sight) -> bool:
    return any(word.text[0] == "?" for word in sight.words) or not _ASKING.isdisjoint(sight.lower)


def _found(sight: Sight, hides: Sequence[str], places: Sequence[float]) -> list[range]:
    """Return the longest names with a drawn word, unless one stands beside another name."""
    found: list[range] = []
    place = 0
    while place < len(hides):
        spans = (range(place, place + length) for length in range(_MOST_WORDS, 0, -1))
        span = next((each for each in spans if _is_found(sight, hides, places, each)), None)
        if span:
            found.append(span)
        place = span.stop if span else place + 1
    return [] if any(one.stop == other.start for one, other in pairwise(found)) else found


def _is_found(sight: Sight, hides: Sequence[str], places: Sequence[float], span: range) -> bool:
    first, drawn = span.start, [at for at in span if at < len(hides) and hides[at]]
    if not drawn or span.stop > len(hides) or not all(hides[at] in _NAMES for at in drawn):
        return False
    if any(sight.gaps[at] != " " for at in span[1:]):
        return False
    if first and sight.words[first - 1].text[0] in _FIELD:
        return False
    name = plain_city(" ".join(sight.lower[at] for at in span))
    if f"\n{name}\n" in _lines("public_names.txt"):
        sure = all(hides[at] == _PLACE and places[at] >= _PROBABILITY for at in drawn)
        if sure or not (OF_PERSONS | _FIRST).isdisjoint(sight.lower):
            return sure
        return len(span) > 1 or not (hides[first] == "persons" and is_usual(sight.lower[first]))
    if "unlisted" in hides[first : span.stop] or not is_city(name):
        return False
    if not all(map(sight.capital, set(span) - set(drawn))):
        return False
    return not names.known(name) or all(
        hides[at] == _PLACE and places[at] >= _PROBABILITY for at in span
    )


@cache
def _lines(name: str) -> str:
    """Return a list with a line's end around each name; a set would take ten times the memory."""
    lines = resources.files(__package__).joinpath(name).read_text("utf-8").splitlines()
    return "\n" + "\n".join(line for line in lines if line[:1] != "#") + "\n"
