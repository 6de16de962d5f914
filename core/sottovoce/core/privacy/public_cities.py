"""Lets large cities pass in questions about them: "How far is Perth from Sydney?"

A city alone says where something is, and a question about it cannot be answered without it. The
city of a person must not pass: "I moved to Perth last year". So a city passes only in a short
question that holds nothing personal, and in which nothing else is drawn. First persons are allowed
beside a word of travel.

The conversation counts as well. Once a name or number of a person was drawn in it, cities are drawn
from then on. A city that passed before still passes in questions, so that a client may send them
again.

The list is `public_cities.txt`: cities of over 500,000 inhabitants, and capitals of over 100,000.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence, Set
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from sottovoce.core.privacy.signs import Sight, listed
from sottovoce.core.privacy.surrogates import names

__all__ = ["is_city", "pass_cities", "plain"]

_PLACE: Final = "places"
_LONGEST: Final = 1_000
"""Characters of a text in which a city may pass; a letter or a story is longer."""
_PROBABILITY: Final = 0.5
"""The least that the finder must give a city that is also the name of persons: "Paris"."""
_NAMES: Final = frozenset({_PLACE, "persons", "organisations"})
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
_FIELD: Final = frozenset(":=|<>@/\\\"'“”‘’`;#")
"""What stands before the value of a field."""


def plain(name: str) -> str:
    """Return how a city is listed: in small letters without accents.

    >>> plain("São Paulo")
    'sao paulo'
    """
    letters = unicodedata.normalize("NFKD", name.lower())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


def is_city(name: str) -> bool:
    """Return whether a name is that of a large city.

    >>> is_city("Perth"), is_city("New York"), is_city("Todmorden")
    (True, True, False)
    """
    return f"\n{plain(name)}\n" in _cities()


def pass_cities(
    document: str, sight: Sight, hides: list[str], places: Sequence[float], past: Set[str] | None
) -> set[str]:
    """Let the large cities of a question pass, and return their names in small letters.

    Args:
        document: the whole text.
        sight: its words.
        hides: what each word hides; changed.
        places: the finder's probability that each word is a place.
        past: the cities that passed before, if the conversation drew names or numbers; else None.
    """
    if len(document) > _LONGEST or _NAMES.isdisjoint(hides):
        return set()
    if document[: sight.words[0].start].strip() or document[sight.words[-1].end :].strip():
        return set()  # not the whole text
    found = [*_found(sight, hides, places)]
    drawn = {place for place, hidden in enumerate(hides) if hidden}
    if not found or drawn - {place for span in found for place in span}:
        return set()
    if not _asks(sight) or not _LIVING.isdisjoint(sight.lower):
        return set()
    if not _FIRST.isdisjoint(sight.lower) and _TRAVEL.isdisjoint(sight.lower):
        return set()
    cities = {plain(" ".join(sight.lower[place] for place in span)) for span in found}
    if past is not None and not cities <= past:
        return set()
    for span in found:
        hides[span.start : span.stop] = [""] * len(span)
    return cities


def _asks(sight: Sight) -> bool:
    return any(word.text[0] == "?" for word in sight.words) or not _ASKING.isdisjoint(sight.lower)


def _found(sight: Sight, hides: Sequence[str], places: Sequence[float]) -> list[range]:
    """Return the cities among the drawn words, unless one stands beside another name."""
    found: list[range] = []
    place = 0
    while place < len(hides):
        two, one = range(place, place + 2), range(place, place + 1)
        span = next((each for each in (two, one) if _is_found(sight, hides, places, each)), None)
        if span:
            found.append(span)
        place = span.stop if span else place + 1
    return [] if any(one.stop == other.start for one, other in pairwise(found)) else found


def _is_found(sight: Sight, hides: Sequence[str], places: Sequence[float], span: range) -> bool:
    if span.stop > len(hides) or not all(hides[at] in _NAMES for at in span):
        return False
    if any(sight.gaps[at] != " " for at in span[1:]):
        return False
    first = span.start
    if first and sight.words[first - 1].text[0] in _FIELD:
        return False
    name = " ".join(sight.lower[at] for at in span)
    if not is_city(name):
        return False
    return not names.known(plain(name)) or all(
        hides[at] == _PLACE and places[at] >= _PROBABILITY for at in span
    )


@cache
def _cities() -> str:
    """Return the list with a line's end around each name; a set would take ten times the memory."""
    file = resources.files(__package__).joinpath("public_cities.txt")
    lines = file.read_text("utf-8").splitlines()
    return "\n" + "\n".join(line for line in lines if line[:1] != "#") + "\n"
