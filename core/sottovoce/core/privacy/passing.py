"""Words that pass although a finder takes them for names: greetings and terms.

Signs such as a title or a label beside a word count for more, see `signs`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from sottovoce.core.privacy.signs import Sight, listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark

__all__ = ["is_eponym", "pass_streets", "pass_types", "passing", "stands_alone"]

_EPONYMS: Final = listed("eponyms")
_STREETS: Final = listed("streets")
_LEADING_STREETS: Final = listed("leading_streets")
_ARTICLES: Final = listed("street_articles")
_TYPES: Final = listed("organisation_types") | listed("company_ends")
_ORDERS: Final = listed("imperatives")
"""Names that are verbs, and begin an order: "Grant access"."""
_OBJECTS: Final = listed("objects")
"""What follows the verb of an order."""
_DETERMINERS: Final = frozenset({"a", "an", "the", "this", "that"})
_PEOPLE: Final = listed("relations") | listed("who") | listed("living") | listed("person_keys")
_RELATIONS: Final = listed("foreign_relations")
_BEFORE_NOUNS: Final = (
    listed("foreign_functions_before_nouns") | listed("foreign_functions") | {"die", "le", "ma"}
)
_BEFORE_ORDERS: Final = frozenset({"please", "to", "then", "don't", "not", "and", "just", "also"})
_ENDS: Final = frozenset('.!?:;•*-#"“')


def passing(sight: Sight, hides: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words of public phrases.

    Args:
        sight: the words.
        hides: what each hides; a single word beside a found person is part of the name.
    """
    yield from _orders(sight)
    for place in range(1, len(sight.lower)):
        if sight.lower[place] in _RELATIONS and sight.lower[place - 1] in _BEFORE_NOUNS:
            yield place  # "mein Sohn Felix"
    phrases = _phrases()
    for place, first in enumerate(sight.lower):
        for rest in phrases.get(first, ()):
            end = place + 1 + len(rest)
            if not rest and _in_name(sight, hides, place):
                continue
            if tuple(sight.lower[place + 1 : end]) == rest and not any(
                map(sight.breaks, range(place + 1, end))
            ):
                yield from range(place, end)


def _orders(sight: Sight) -> Iterator[int]:
    """Yield verbs that are names, where an order begins: "Grant access", "Ring +49 30 1234"."""
    for place, lower in enumerate(sight.lower[:-1]):
        if lower not in _ORDERS or sight.breaks(place + 1):
            continue
        begins = not place or sight.breaks(place) or sight.words[place - 1].text[0] in _ENDS
        if not begins and sight.lower[place - 1] not in _BEFORE_ORDERS:
            continue
        after = sight.lower[place + 1]
        then = sight.lower[place + 2] if place + 2 < len(sight.words) else ""
        number = sight.lower[place] == "ring" and after[0] in "+0123456789"
        somebody = after in _DETERMINERS and then in _PEOPLE  # "Grant the landlord asked"
        if sight.gaps[place + 1] == " " and (number or (after in _OBJECTS and not somebody)):
            yield place


def pass_types(sight: Sight, hides: list[str]) -> None:
    """Let the kind of an organisation pass, so that the request keeps its sense: "Hospital".

    A part of the name must stay hidden beside it. A word that is also a name stays hidden in the
    name of a person.
    """
    for place, hidden in enumerate(hides):
        lower = sight.lower[place]
        if hidden not in _NAMED or lower not in _TYPES:
            continue
        name = sight.marks[place] & Mark.NAME
        before = sight.lower[place - 1] if place and not sight.breaks(place) else ""
        after = sight.lower[place + 1] if place + 1 < len(hides) else ""
        if name and (hidden == "persons" or names.gender(before) or hides[place - 1] == "persons"):
            continue
        if after in _STREETS or before[:1].isdigit():
            continue  # "12 Bank Street"
        if any(_goes_on(sight, hides, place, step) for step in (-1, 1)):
            hides[place] = ""


_NAMED: Final = frozenset({"organisations", "places", "persons", "unlisted"})
_JOINTS: Final = frozenset({"&", "'", "’", "'s", "’s", "of", "and", "the", "-", "for"})


def _goes_on(sight: Sight, hides: Sequence[str], place: int, step: int) -> bool:
    """Return whether a hidden part of the same name that is no kind stands on this side."""
    at, edge = place + step, max(place, place + step)
    while 0 <= at < len(hides) and not sight.breaks(edge) and len(sight.gaps[edge]) < 2:
        kind = sight.lower[at] in _TYPES
        if hides[at] in _NAMED and not kind:
            return True
        if not kind and sight.lower[at] not in _JOINTS:
            return False
        at += step
        edge = max(at, at - step)
    return False


def pass_streets(sight: Sight, hides: list[str]) -> None:
    """Let the kind of a street pass beside its drawn name: "Road" in "12 Ashby Road".

    A kind that is also a name ("Lane") passes only after a house number and the street's name.
    """
    for place, lower in enumerate(sight.lower):
        if hides[place] != "places":
            continue
        if lower in _STREETS and _is_street(sight, hides, place - 1, place):
            numbered = place > 1 and sight.lower[place - 2][:1].isdigit()
            if numbered or not sight.marks[place] & Mark.NAME:
                hides[place] = ""
        elif lower in _LEADING_STREETS:
            after = place + 1
            while after < len(hides) - 1 and sight.lower[after] in _ARTICLES:
                after += 1
            if _is_street(sight, hides, after, after):
                hides[place:after] = [""] * (after - place)


def _is_street(sight: Sight, hides: Sequence[str], name: int, edge: int) -> bool:
    """Return whether a drawn word that is no kind of street stands at ``name``."""
    return (
        0 <= name < len(hides)
        and hides[name] == "places"
        and not sight.breaks(edge)
        and sight.gaps[edge] == " "
        and sight.words[name].text[0].isalpha()
        and sight.lower[name] not in _STREETS | _LEADING_STREETS | _ARTICLES
    )


def _in_name(sight: Sight, hides: Sequence[str], place: int) -> bool:
    return (
        any(
            0 <= other < len(hides)
            and hides[other] == "persons"
            and sight.capital(other)
            and sight.gaps[max(place, other)] == " "
            and sight.lower[other] not in _phrases()
            and sight.capital(place)
            for other in (place - 1, place + 1)
        )
        and sight.marks[place] & Mark.NAME != 0
    )


def is_eponym(sight: Sight, place: int) -> bool:
    """Return whether a public name names a thing: "Rayleigh scattering", "Brooks's law"."""
    after = place + 1
    while after < len(sight.words) and (
        sight.words[after].clitic or sight.words[after].text in ("-", "–")
    ):
        after += 1
    for at in (after, after + 1):
        if at < len(sight.words) and not sight.breaks(at) and sight.lower[at] in _EPONYMS:
            return True
    return False


def stands_alone(sight: Sight, place: int) -> bool:
    """Return whether no other word with a capital stands beside a word."""
    return not any(
        0 <= other < len(sight.words) and sight.capital(other) and not sight.breaks(edge)
        for other, edge in ((place - 1, place), (place + 1, place + 1))
    )


@cache
def _phrases() -> dict[str, list[tuple[str, ...]]]:
    """Return phrases by their first word; in the list, "_" joins the words of a phrase."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for phrase in listed("public_phrases"):
        first, *rest = phrase.split("_")
        found[first].append((*rest,))
    return dict(found)
