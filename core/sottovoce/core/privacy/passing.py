"""Words that pass although a finder takes them for names: greetings, and terms.

A title or a label beside a word counts for more, see `signs`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from sottovoce.core.privacy.citations import citations
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import LONG_AMOUNT, POSSESSIVES, counts, listed
from sottovoce.core.privacy.surrogates import names
from sottovoce.core.text.vocabulary import Mark, listed_names
from sottovoce.core.text.words import Kind

_EPONYMS: Final = listed("eponyms")
_THEOREMS: Final = listed("theorems")
_BEFORE_MAIL: Final = frozenset(
    {"der", "die", "eine", "einer", "per", "diese", "dieser", "deine", "meine", "seine", "ihre"}
)
_WEEKDAYS: Final = listed("foreign_weekdays")
_BEFORE_WEEKDAYS: Final = listed("before_weekdays")
_STANDARDS: Final = listed("standards")
_STANDARD = re.compile(r"\d{3,5}(?:-\d{1,4})?(?::\d{4})?")
_QUARTERS: Final = frozenset(
    {
        *("north", "south", "east", "west", "northern", "southern", "eastern", "western"),
        *("central", "great", "greater"),
    }
)
_ROOMS: Final = listed("rooms")
_STREETS: Final = listed("streets")
_LEADING_STREETS: Final = listed("leading_streets")
_ARTICLES: Final = listed("street_articles")
_TYPES: Final = listed("organisation_types") | listed("company_ends") | listed("company_forms")
_ORDERS: Final = listed("imperatives")
"""Names that are verbs, and begin an order: "Grant access"."""
_OBJECTS: Final = listed("objects")
"""What follows the verb of an order."""
_DETERMINERS: Final = frozenset({"a", "an", "the", "this", "that"})
_PEOPLE: Final = listed("relations") | listed("who") | listed("living") | listed("person_keys")
_RELATIONS: Final = listed("foreign_relations")
_OWNED: Final = listed("relations")
_BEFORE_NOUNS: Final = (
    listed("foreign_functions_before_nouns") | listed("foreign_functions") | {"die", "le", "ma"}
)
_BEFORE_ORDERS: Final = frozenset({"please", "to", "then", "don't", "not", "and", "just", "also"})
_ENDS: Final = frozenset('.!?:;•*-#"“')


def passing(sight: Sight, hides: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words of public phrases.

    Args:
        hides: what each hides; a single word beside a found person is part of the name.
    """
    yield from _orders(sight)
    yield from citations(sight)
    for place in range(1, len(sight.words)):  # "ISO 27001"
        if sight.marks[place] & Mark.PLACE and sight.lower[place - 1] in _QUARTERS:
            yield place - 1  # "South Korea"
        if sight.lower[place - 1 : place + 1] == ["new", "england"] and not _is_named(sight, place):
            yield place - 1
        mail = sight.lower[place - 1] == "mail" and sight.gaps[place] == " "
        if mail and "@" in sight.words[place].text:
            yield place - 1  # "Mail ann@kerr.example"
        if sight.lower[place] == "mail" and sight.lower[place - 1] in _BEFORE_MAIL:
            yield place  # "eine Mail"
        if sight.lower[place] in _WEEKDAYS and sight.lower[place - 1] in _BEFORE_WEEKDAYS:
            yield place  # "bis Freitag"
        standard = sight.lower[place - 1] in _STANDARDS and sight.words[place - 1].text.isupper()
        if standard and _STANDARD.fullmatch(sight.words[place].text) and sight.gaps[place] == " ":
            yield place
    for place in range(1, len(sight.lower)):
        if sight.lower[place] in _RELATIONS and sight.lower[place - 1] in _BEFORE_NOUNS:
            yield place  # "mein Sohn Felix"
        if sight.lower[place] in _OWNED and sight.lower[place - 1] in POSSESSIVES:
            yield from (place - 1, place)  # "MY BOSS DIANE FOSTER"
    for place, first in enumerate(sight.lower):
        for rest in _phrases("public_phrases").get(first, ()):
            end = place + 1 + len(rest)
            if not rest and _in_name(sight, hides, place):
                continue
            if tuple(sight.lower[place + 1 : end]) == rest and not any(
                map(sight.breaks, range(place + 1, end))
            ):
                yield from range(place, end)


def _is_named(sight: Sight, place: int) -> bool:
    """Return whether a word with a capital stands beside two words: "ISO New England"."""
    return any(
        0 <= at < len(sight.words) and sight.capital(at) and sight.gaps[edge] == " "
        for at, edge in ((place - 2, place - 1), (place + 1, place + 1))
    )


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


def pass_ordinary(sight: Sight, hides: list[str]) -> None:
    """Let jobs pass, versions, and the words by which a question asks about a person."""
    _pass_jobs(sight, hides)
    _pass_predicates(sight, hides)
    _pass_versions(sight, hides)


def _pass_versions(sight: Sight, hides: list[str]) -> None:
    """Let versions pass that look like dates: "Python 3.10.12", "from version 3.9.11"."""
    for place, hidden in enumerate(hides):
        text = sight.words[place].text
        if hidden != "dates" or not place or not _VERSION.fullmatch(text):
            continue
        quoted = "".join(sight.lower[max(place - 3, 0) : place]) == '":"' and place > 3
        last = place - (4 if quoted else 1)  # '"lodash": "4.17.21"'
        before, marks = sight.lower[last], sight.marks[last]
        near = range(max(place - _NEAR_VERSION, 0), place)
        product = marks & Mark.PUBLIC and not listed_names(before)
        other = any(_VERSION.fullmatch(sight.words[at].text) and not hides[at] for at in near)
        told = _NO_DATE.match(text) or any(sight.lower[at] in _OF_VERSIONS for at in near)
        if before not in _DATE_SIGNS and (product or other or told):
            hides[place] = ""


_VERSION = re.compile(r"\d{1,2}(?:\.\d{1,2}){2}")
_NO_DATE = re.compile(r"0\.|\d{1,2}\.0\.")
_NEAR_VERSION: Final = 3
_OF_VERSIONS: Final = listed("of_versions")
_DATE_SIGNS: Final = listed("date_signs")


def _pass_jobs(sight: Sight, hides: list[str]) -> None:
    """Let a job pass: "as Senior Data Engineer", "Head of Sales"."""
    for place, lower in enumerate(sight.lower):
        if lower not in _JOBS:
            continue
        begin = place
        while begin and _may_be_job(sight, begin - 1) and place - begin < _MOST_IN_NAME:
            begin -= 1
        after = place + 2
        of = sight.lower[place + 1 : after] == ["of"] and sight.lower[after : after + 1]
        if of and of[0] in _DEPARTMENTS:
            hides[after] = "" if hides[after] in _NAMED else hides[after]
        alone = sight.lower[max(begin - 1, 0)] in _BEFORE_JOBS and not listed_names(lower)
        if begin < place or alone:  # but not "the Porter family"
            for at in range(begin, place + 1):
                hides[at] = "" if hides[at] in _NAMED else hides[at]


def _may_be_job(sight: Sight, place: int) -> bool:
    """Return whether a word before a job belongs to it: "Senior", "Data", but not "Dear"."""
    return (
        sight.lower[place] in _JOB_WORDS and sight.capital(place) and sight.gaps[place + 1] == " "
    )


_JOBS: Final = listed("jobs")
_DEPARTMENTS: Final = listed("departments")
_JOB_WORDS: Final = listed("job_words") | _DEPARTMENTS
_BEFORE_JOBS: Final = frozenset({"a", "an", "as", "the"})


def _pass_predicates(sight: Sight, hides: list[str]) -> None:
    """Let ordinary words pass after the name that a question asks about: "Did Rose die?".

    A word that is a name elsewhere stays hidden: "Dana Short is late. Is Dana short in?".
    """
    known = {
        sight.lower[at]
        for at, hidden in enumerate(hides)
        if hidden == "persons" and sight.capital(at)
    }
    for place in range(2, len(hides)):
        begin = place
        while (
            begin > place - _MOST_IN_NAME
            and begin
            and hides[begin - 1] == "persons"
            and sight.capital(begin - 1)
        ):
            begin -= 1
        asked = 0 < begin < place and sight.lower[begin - 1] in _AUXILIARIES
        plain = sight.marks[place] & Mark.WORD and not sight.capital(place)
        plain = plain and sight.lower[place] not in known
        if hides[place] == "persons" and asked and plain and sight.gaps[place] == " ":
            hides[place] = ""


_AUXILIARIES: Final = listed("auxiliaries")
_MOST_IN_NAME: Final = 4


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
    """Let the kind of a street pass beside its drawn name: "Road" in "12 Quarry Hill Road".

    A kind that is also a name ("Lane") passes only after a house number and the street's name. The
    kind of a room passes before its number: "flat 4b".
    """
    for place, lower in enumerate(sight.lower):
        if hides[place] != "places":
            continue
        if lower in _ROOMS and _follows(sight, hides, place + 1):
            if sight.lower[place + 1][0].isdigit():
                hides[place] = ""
        elif lower in _STREETS and _ends_name(sight, hides, place):
            if not sight.marks[place] & Mark.NAME or _numbered(sight, place):
                hides[place] = ""
        elif lower in _LEADING_STREETS:
            after = place + 1
            while after < len(hides) - 1 and sight.lower[after] in _ARTICLES:
                after += 1
            if (
                _follows(sight, hides, after, place)
                and sight.words[after].text[0].isalpha()
                and _names_street(sight, after)
                and sight.lower[after] not in _STREETS
            ):
                hides[place:after] = [""] * (after - place)


def _follows(sight: Sight, hides: Sequence[str], place: int, before: int | None = None) -> bool:
    """Return whether a drawn place goes on at a word, after a blank."""
    last = place - 1 if before is None else before
    return (
        0 < place < len(hides)
        and hides[last] == hides[place] == "places"
        and not sight.breaks(place)
        and sight.gaps[place] == " "
    )


def _ends_name(sight: Sight, hides: Sequence[str], place: int) -> bool:
    """Return whether a word is the last kind of street after a drawn name: "Hill Road"."""
    named = _follows(sight, hides, place) and sight.words[place - 1].text[0].isalpha()
    goes_on = _follows(sight, hides, place + 1) and sight.lower[place + 1] in _STREETS
    return named and not goes_on and _names_street(sight, place - 1)


def _names_street(sight: Sight, place: int) -> bool:
    return sight.lower[place] not in _LEADING_STREETS | _ARTICLES


def _numbered(sight: Sight, place: int) -> bool:
    """Return whether a house number stands before the street's name of at most three words."""
    before = sight.lower[max(place - 4, 0) : max(place - 1, 0)]
    return any(word[0].isdigit() for word in before)


def _in_name(sight: Sight, hides: Sequence[str], place: int) -> bool:
    return (
        any(
            0 <= other < len(hides)
            and hides[other] == "persons"
            and sight.capital(other)
            and sight.gaps[max(place, other)] == " "
            and sight.lower[other] not in _phrases("public_phrases")
            and sight.capital(place)
            for other in (place - 1, place + 1)
        )
        and sight.marks[place] & Mark.NAME != 0
    )


_OPERAND = re.compile(r"(?:0|[1-9]\d{0,14})(?:\.\d{1,15})?")
_OPERATORS: Final = frozenset("*^×÷%")
_RECKONED = re.compile(r"\d{1,15}(?:[*^×÷%]\d{1,15})+|\d{1,3}!")
_ALSO_BETWEEN_NUMBERS: Final = frozenset("/+")
"""Operators that also stand between two telephones, so a question must be asked."""
_RECKONING: Final = frozenset({"calculate", "compute", "evaluate", "is", "solve", "what", "what's"})
_NEAR_RECKONING: Final = 6
_BEFORE_AMOUNTS: Final = listed("before_amounts")
_AFTER_AMOUNTS: Final = listed("after_amounts")
_FUNCTIONS: Final = listed("functions")
_SHORTEST_UNIT: Final = 3
_COUNTED: Final = listed("counted") | listed("measures") - {"g", "m"}
_CALLS: Final = listed("calls") | listed("contact_keys")
_NEAR_CALLS: Final = 6


def is_amount(sight: Sight, place: int) -> bool:
    """Return whether a long number counts or measures: "12011 steps", "views: 120453".

    After a word about telephones it does not: "call 5551234 days".
    """
    if not _OPERAND.fullmatch(sight.words[place].text):
        return False
    if not _CALLS.isdisjoint(sight.lower[max(place - _NEAR_CALLS, 0) : place]):
        return False
    if _is_operand(sight, place):
        return True
    if not LONG_AMOUNT.fullmatch(sight.words[place].text):
        return False
    for other, edge in ((place + 1, place + 1), (place - 1, place)):
        if 0 <= other < len(sight.words) and sight.gaps[edge] == " ":
            unit = sight.marks[other] & Mark.UNIT and len(sight.lower[other]) >= _SHORTEST_UNIT
            after = sight.words[other + 1 : other + 2]
            mine = sight.words[other].text.isupper() if other < place else True
            mine &= other < place or not after or after[0].kind is not Kind.IDENTIFIER
            if mine and (unit or sight.lower[other] in _COUNTED):
                return True  # but not "to 48213977 EUR 500"
    before = place and sight.gaps[place] == " " and counts(sight.words[place - 1].text)
    if before or _is_reduced(sight, place):
        return True
    at = place - 1
    while at > place - _BEFORE_VALUE and at > 0 and sight.words[at].text in ("'", '"', ":", "="):
        at -= 1
    return 0 <= at < place - 1 and counts(sight.words[at].text)


def _is_operand(sight: Sight, place: int) -> bool:
    """Return whether a number is reckoned with: "12345 * 6789", "is 104729 prime"."""
    before = sight.lower[max(place - 2, 0) : place]
    if before[-1:] == ["("] and before[0].rpartition(".")[2] in _FUNCTIONS:
        return True
    result = before[-1:] == ["="] and place > 1
    if result and (before[0] == "!" or _RECKONED.fullmatch(before[0])):
        return True  # "2^32 = 4294967296"
    if not _BEFORE_AMOUNTS.isdisjoint(before[-1:]):
        return True
    if not _AFTER_AMOUNTS.isdisjoint(sight.lower[place + 1 : place + 2]):
        return True
    for step in (-1, 1):
        sign, other = place + step, place + 2 * step
        if not 0 <= other < len(sight.words) or not _OPERAND.fullmatch(sight.words[other].text):
            continue
        gaps = {sight.gaps[max(place, sign)], sight.gaps[max(sign, other)]}
        if len(gaps) == 1 and sight.words[sign].text in _OPERATORS:
            return True
        if gaps == {" "} and sight.words[sign].text in _ALSO_BETWEEN_NUMBERS:
            first = min(place, other)
            return not _RECKONING.isdisjoint(sight.lower[max(first - _NEAR_RECKONING, 0) : first])
    return False


def _is_reduced(sight: Sight, place: int) -> bool:
    """Return whether a number is in a list that is reckoned with: "mean of 12345, 23456, 34567"."""
    ends = []
    for step in (-1, 1):
        at = place
        while 0 <= at + 2 * step < len(sight.words) and abs(at - place) < _MOST_REDUCED:
            joint, other = sight.words[at + step].text, sight.words[at + 2 * step].text
            if joint not in (",", "and", ";") or not _REDUCIBLE.fullmatch(other):
                break
            at += 2 * step
        ends.append(at)
    if ends[1] - ends[0] < 2 * (_FEWEST_REDUCED - 1):
        return False
    before = {*sight.lower[max(ends[0] - _NEAR_REDUCED, 0) : ends[0]]}
    before |= {word.removesuffix("s") for word in before}
    return not before.isdisjoint(_REDUCING) and before.isdisjoint(_NUMBERING)


_REDUCIBLE = re.compile(r"[-+$€£]?[1-9]\d{0,7}(?:\.\d{1,2})?")
_REDUCING: Final = listed("reducing")
_NUMBERING: Final = _CALLS | listed("number_keys")
_NEAR_REDUCED: Final = 8
_MOST_REDUCED: Final = 40
_FEWEST_REDUCED: Final = 3

_BEFORE_VALUE: Final = 5
"""Marks between a key and its value, and the key: `"views": "120453"`."""


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


def is_theorem(sight: Sight, place: int) -> bool:
    """Return whether a name, also one in no list, names a theorem: "Vieta's theorem"."""
    after = place + 1
    while after < len(sight.words) and (
        sight.words[after].clitic or sight.words[after].text in ("'", "’", "-", "–")
    ):
        after += 1
    return after < len(sight.words) and sight.lower[after] in _THEOREMS and not sight.breaks(after)


@cache
def _phrases(name: str) -> dict[str, list[tuple[str, ...]]]:
    """Return a list's phrases by their first word; in it, "_" joins the words of a phrase."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for phrase in listed(name):
        first, *rest = phrase.split("_")
        found[first].append((*rest,))
    return dict(found)
