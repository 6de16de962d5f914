"""Finds postal addresses, whole: house, street, number, postcode, city and country.

A street, a postcode or a label tells that there is an address. From there, an address goes on over
names, numbers and commas on its line, and over short lines that hold nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from typing import Final

from sottovoce.core.privacy import identifying
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import LIVE, listed, value_after
from sottovoce.core.text.vocabulary import Mark
from sottovoce.core.text.words import Kind

_STREETS: Final = listed("streets")
_SURE_STREETS: Final = listed("sure_streets")
"""Kinds of streets that also count in small letters."""
_JOINED = re.compile(
    r"\w{3,}(?:stra(?:ss|ß)e|str|gasse|weg|platz|allee|damm|gatan|vägen|vej|gade|straat|laan|plein"
    r"|gracht|katu|gata)",
    re.IGNORECASE,
)
_LEADING: Final = listed("leading_streets")
"""Kinds of streets that stand before the name: "Rue Mercier 5"."""
_ARTICLES: Final = listed("street_articles")
_WEAK_STREETS: Final = listed("weak_streets")
"""Kinds that count in no case without a home: "the 5 Percent Rise"."""
_SAID_STREETS: Final = listed("said_streets")
"""Kinds that also count in small letters after "at", a number and a name."""
_SAID_NUMBERS: Final = listed("said_numbers")
_OF_NUMBERS: Final = _SAID_NUMBERS | {"-", "a", "and", "hundred"}
_NUMBER_SIGNS: Final = frozenset({"no", "nr", "number"})
_NO_STREET_NAMES: Final = listed("no_street_names")
_AFTER_VERBS: Final = listed("after_verbs")
_BESIDE: Final = frozenset({"near", "outside", "opposite"})
_TOWARDS: Final = frozenset({"to", "from", "for"})
_GOING: Final = frozenset(
    {"come", "deliver", "delivery", "directions", "drive", "get", "go", "route", "send", "way"}
)
"""Words before "to" or "from" and the number of a house."""
_MOVING: Final = LIVE | {"move", "moved", "moves", "moving", "neighbour", "neighbours"}
_NO_STREETS: Final = (
    _STREETS | _ARTICLES | {"a", "an", "at", "by", "my", "your", "one", "way", "to"}
)
_FLATS: Final = frozenset({"apt", "apartment", "flat", "suite", "ste", "pmb", "apto", "wohnung"})
_ROOMS: Final = listed("rooms")
_LABELS: Final = listed("address_labels")
_POSTCODE_KEYS: Final = frozenset({"postcode", "postcodes", "zip", "zipcode", "zipcodes", "zips"})
_NUMBER_KEYS: Final = (listed("number_keys") | listed("contact_keys")) - _POSTCODE_KEYS
_NUMBERED: Final = listed("numbered_streets")
"""Kinds of streets of other languages that also count in small letters after a number."""
_NAMED: Final = listed("named_streets")
"""The same before a name and a number."""
_FOREIGN_STREETS: Final = listed("foreign_streets")
"""Those of both that are no English words."""
_ZIP_WITHIN: Final = 8
"""Words after a street in small letters within which a postcode must follow."""
_SAID: Final = frozenset({"and", "in"})
"""Words between two places that are no part of one: "Todmorden in Yorkshire"."""
_IN_SENTENCES: Final = listed("in_sentences")
_AFTER_TOWNS: Final = listed("after_towns")
"""Words in small letters that no town has in its name; what follows them is no town either."""
_TALK: Final = listed("first_persons") | listed("asking") | {"can", "do", "is", "you", "please"}
_MOST_NAMES: Final = 4
_MOST_WORDS: Final = 12
"""Words of an address on either side of what told that it is one."""
_MOST_ON_LINE: Final = 7
"""Words of a further line."""
_MOST_PART: Final = 3
"""Words of a part between commas in small letters."""
_IN_STREETS: Final = ("-", "'", "’", ".", ",")
_WHOLE: Final = frozenset(
    {"road", "lane", "way", "park", "hill", "row", "gate", "walk", "yard", "rue", "loop", "mews"}
    | {"fold", "rise", "vale"}
)
"""Short kinds of streets that are no abbreviations, so a full stop ends the sentence."""
_ABBREVIATED: Final = 4
"""Letters of the longest abbreviation."""
_NUMBER = re.compile(r"(?:#|[Nn][or]\.)?\d{1,5}[A-Za-zºª°]?(?:[-/]\d{1,4}[A-Za-z]?)?")
_ZIP = re.compile(r"\d{5}(?:-\d{4})?")
_ESCAPE = re.compile(r"\\[nrt]")
"""A line break in letters, as in values of JSON."""
_STATE = re.compile(r"[A-Z]{2}")


def addresses(sight: Sight, hides: Sequence[str]) -> Iterator[int]:
    """Yield the places of the words of addresses.

    Args:
        hides: what each hides so far; a number that hides a place is part of an address.
    """
    drawn: set[int] = set()
    small = {*_small_postcodes(sight, hides)}
    for start, stop in (*_anchors(sight), *_numbered(sight, hides), *small):
        if start in drawn and stop - 1 in drawn:
            continue
        drawn.update(range(start, stop))
        for place in _onward(sight, start, -1, small=(start, stop) in small):
            if hides[place] != "persons":
                drawn.add(place)
            elif sight.words[place + 1].text == ",":
                break  # "Frau Kerr, Hauptstr. 5"
        drawn.update(_onward(sight, stop - 1, 1))
    drawn.update(_said_houses(sight, hides, drawn))
    words, bridges = sight.words, _bridges(sight, hides, drawn)
    yield from (
        place
        for place in sorted(drawn.union(bridges))
        if words[place].kind is not Kind.PUNCTUATION
        and not words[place].clitic
        and not (sight.lower[place] in _NUMBER_SIGNS and _is_number(sight, place + 2))
        and words[place].text != "à"  # between a street and a town
        and not (words[place].text == "in" and words[place - 1].kind is Kind.IDENTIFIER)
    )


def _said_houses(sight: Sight, hides: Sequence[str], drawn: Container[int]) -> Iterator[int]:
    """Yield the words of a house number before an address: "number forty-two Quarry Lane"."""
    for place in range(1, len(sight.words)):
        street = place in drawn
        if not (street or hides[place]) or place - 1 in drawn or not sight.capital(place):
            continue
        end = place - (sight.words[place - 1].text == ",")
        start = end
        while start and sight.lower[start - 1] in _OF_NUMBERS and not sight.breaks(start):
            start -= 1
        if start == end or sight.lower[start] not in _SAID_NUMBERS:
            continue
        before = sight.lower[start - 1] if start else ""
        named = before in _NUMBER_SIGNS
        led = start > 1 and sight.lower[start - 2] in ("at", "from", "in", "to")
        first = sight.capital(start) and (before == "," or sight.begins(start))
        home = named or first or before == "at" or _at_home(sight, start, strict=True)
        sure = street and (home or (before == "to" and not _GOING.isdisjoint(_near(sight, start))))
        moved = end == place and not _MOVING.isdisjoint(_near(sight, start))
        if sure or (named and led and (moved or hides[place] == "places")):
            yield from range(start, end)


def _near(sight: Sight, place: int) -> Sequence[str]:
    return sight.lower[max(place - _MOST_NAMES, 0) : place]


def _numbered(sight: Sight, hides: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield house numbers that stand beside found places."""
    for place, hidden in enumerate(hides):
        word = sight.words[place]
        if hidden == "places" and word.kind is Kind.IDENTIFIER and _NUMBER.fullmatch(word.text):
            yield place, place + 1


def _small_postcodes(sight: Sight, hides: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield postcodes in small letters, or cut by a line, after a drawn word: "didcot ox11 7hq"."""
    for place in range(1, len(sight.words) - 1):
        gap = " " if sight.gaps[place + 1] == "\n" else sight.gaps[place + 1]
        pair = f"{sight.words[place].text}{gap}{sight.words[place + 1].text}"
        small = (pair.islower() or sight.breaks(place + 1)) and pair[0].isalpha()
        if hides[place - 1] and small and identifying.is_postcode(pair.upper()):
            yield place, place + 2


def _bridges(sight: Sight, hides: Sequence[str], drawn: Container[int]) -> Iterator[int]:
    """Yield articles inside an address or a found place: "Rue de la Loge 5"."""

    def is_place(at: int) -> bool:
        return at in drawn or hides[at] == "places"

    start = 0
    while start < len(hides):
        end = start
        while end < len(hides) and sight.lower[end] in _ARTICLES and not sight.breaks(end):
            end += 1
        between = start < end < len(hides) and start and is_place(start - 1) and is_place(end)
        address = start - 1 in drawn or end in drawn
        if between and (address or _SAID.isdisjoint(sight.lower[start:end])):
            yield from range(start, end)
        start = max(end, start + 1)


def _anchors(sight: Sight) -> Iterator[tuple[int, int]]:
    """Yield each sign of an address: its first word and the place after its last word."""
    words, lower = sight.words, sight.lower
    for place, word in enumerate(words):
        if word.kind is Kind.PUNCTUATION:
            continue
        if lower[place] in _LABELS:
            yield from _labelled(sight, place)
        if word.kind is Kind.WORD:
            if lower[place] in _STREETS:
                yield from _street(sight, place)
            yield from _small_leading(sight, place)
            if lower[place] in _LEADING and sight.capital(min(place + 1, len(words) - 1)):
                yield from _leading(sight, place)
            at = place + (place + 1 < len(words) and words[place + 1].text == ".")
            if _JOINED.fullmatch(word.text) and _is_number(sight, at + 1):
                yield place, at + 2
            if lower[place] in _FLATS and _is_number(sight, at + 1):
                yield place, at + 2
            box = lower[place] == "box" and place and lower[place - 1] in ("po", "p.o.")
            if box and _is_number(sight, place + 1):
                yield place - 1, place + 2
        elif place and not sight.breaks(place):
            pair = f"{_ESCAPE.split(words[place - 1].text)[-1]} {word.text}"
            state = _STATE.fullmatch(words[place - 1].text) and _ZIP.fullmatch(word.text)
            if sight.gaps[place] == " " and (identifying.is_postcode(pair) or state):
                yield place - 1, place + 1
        if word.kind is Kind.IDENTIFIER and identifying.is_postcode(word.text):
            yield place, place + 1


def _is_number(sight: Sight, place: int) -> bool:
    return (
        place < len(sight.words)
        and not sight.breaks(place)
        and _NUMBER.fullmatch(sight.words[place].text) is not None
    )


def _street(sight: Sight, place: int) -> Iterator[tuple[int, int]]:
    """Yield a street with its kind last: "12 Rose Lane", "Rose Lane", "12 rose lane"."""
    capital, names, back = sight.capital(place), 0, place - 1
    weak = sight.lower[place] in _WEAK_STREETS
    sure = (capital and not weak) or sight.lower[place] in _SURE_STREETS or _zip(sight, place)
    if not sure and not _ends_home(sight, place):
        return
    while back >= 0 and names <= _MOST_NAMES and not sight.breaks(back + 1):
        word, text = sight.words[back], sight.lower[back]
        number = _NUMBER.fullmatch(word.text) if word.kind is Kind.IDENTIFIER else None
        said = text in _SAID_NUMBERS and not word.clitic
        home = (number or said) and _at_home(sight, back, strict=said or weak)
        if names and (home or (sure and number)):
            yield back, place + 1
            return
        if word.kind is Kind.IDENTIFIER:
            if not (names == 0 and text[0].isdigit()):  # "5th Avenue"
                break
            names += 1
        elif word.kind is Kind.WORD and not word.clitic:  # not of "Tanner's Yard"
            if capital and not sight.capital(back):
                break
            kind = text in _STREETS and capital  # "8 Park Road"
            if text in _IN_SENTENCES or (text in _NO_STREETS and not kind):
                break
            if sight.marks[back] & Mark.UNIT and not sight.capital(back):
                break
            names += 1
        elif not word.clitic and (text not in _IN_STREETS or (text == "," and names)):
            break
        back -= 1
    if names and capital and sight.lower[place] not in listed("doubtful_streets"):
        yield back + 1, place + 1


def _ends_home(sight: Sight, place: int) -> bool:
    """Return whether a doubtful kind of street in small letters may end an address."""
    after = sight.lower[place + 1] if place + 1 < len(sight.words) else "."
    before = sight.lower[place - 1] if place else ""
    named = before not in _AFTER_TOWNS and before not in _NO_STREET_NAMES
    return sight.lower[place] in _SAID_STREETS and named and after not in _AFTER_VERBS


def _at_home(sight: Sight, place: int, *, strict: bool) -> bool:
    """Return whether a number is part of a home's address: "come to 7a elm way".

    Args:
        strict: whether it needs a word about a home: "my address is twelve beech avenue".
    """
    *_, earlier, before = ("", "", *sight.lower[:place])
    if before in _NUMBER_SIGNS and earlier == "at":
        return True
    if before == "at":
        return not strict or earlier == "address" or earlier in LIVE
    if strict or before == "is":
        return (earlier, before) == ("address", "is")
    lettered = sight.lower[place][-1].isalpha()  # "7a"
    return before in _BESIDE or (before in _TOWARDS and (lettered or earlier in _GOING))


def _zip(sight: Sight, place: int) -> bool:
    """Return whether a part after a comma, and then a postcode, follow on the line."""
    after = place + 1
    if after >= len(sight.words) or sight.words[after].text != ",":
        return False
    for at in range(after + 1, min(after + _ZIP_WITHIN, len(sight.words))):
        if sight.breaks(at):
            return False
        if _ZIP.fullmatch(sight.words[at].text):
            return True
    return False


def _small_leading(sight: Sight, place: int) -> Iterator[tuple[int, int]]:
    """Yield a street with its kind first, in small letters: "22 place de la Gare"."""
    lower, at = sight.lower, place + 1
    if at >= len(lower) or (lower[place] not in _NUMBERED and lower[place] not in _NAMED):
        return
    while at < len(lower) and at <= place + _MOST_NAMES and not sight.breaks(at):
        if sight.words[at].kind is not Kind.WORD or lower[at] in _IN_SENTENCES:
            break
        at += 1
    if at == place + 1:
        return
    known = lower[place] in _FOREIGN_STREETS
    article = lower[place + 1] in _ARTICLES and any(map(sight.capital, range(place + 1, at)))
    comma = at < len(lower) and sight.words[at].text == ","
    front = place - 1 - (place > 1 and sight.words[place - 1].text == ",")
    if lower[place] in _NUMBERED and front >= 0 and _is_number(sight, front):
        if known or article or not sight.marks[place + 1]:
            yield front, at
        return
    sure = (known and not comma) or _zip(sight, at + comma)
    if sure and lower[place] in _NAMED and _is_number(sight, at + comma):
        yield place, at + comma + 1


def _leading(sight: Sight, place: int) -> Iterator[tuple[int, int]]:
    """Yield a street with its kind first, and a number on either side."""
    at = place + 1
    while at < len(sight.words) and at <= place + _MOST_NAMES and not sight.breaks(at):
        if sight.words[at].kind is not Kind.WORD:
            break
        if not sight.capital(at) and sight.lower[at] not in _ARTICLES:
            break
        at += 1
    if place and _is_number(sight, place - 1) and not sight.breaks(place):
        yield place - 1, at
        return
    follows = at + 1 if at < len(sight.words) and sight.words[at].text == "," else at
    if _is_number(sight, follows):
        yield place, follows + 1


def _labelled(sight: Sight, place: int) -> Iterator[tuple[int, int]]:
    start = value_after(sight, place)
    if start and sight.words[start].kind is Kind.IDENTIFIER and "@" in sight.words[start].text:
        return
    if start and (sight.capital(start) or _is_number(sight, start)):
        yield start, start + 1


def _onward(sight: Sight, place: int, step: int, *, small: bool = False) -> list[int]:
    """Return the places to which an address goes on from its end at ``place``.

    Args:
        small: whether words in small letters may be parts of the address.
    """
    found: list[int] = []
    pending: list[int] = []
    at = place + step
    near = sight.words[max(place - _MOST_PART, 0) : place + 1]
    small |= step > 0 and all(word.text == word.text.lower() for word in near)
    while 0 <= at < len(sight.words) and len(found) + len(pending) < _MOST_WORDS:
        edge = max(at, at - step)
        if sight.breaks(edge) and (sight.gaps[edge].count("\n") > 1 or not _line(sight, at, step)):
            break
        word, text = sight.words[at], sight.lower[at]
        if step > 0 and _names_number(sight, at):
            break
        if word.kind is Kind.PUNCTUATION:
            if not _goes_on(sight, at, small=small, step=step):
                break
        elif word.kind is Kind.IDENTIFIER:
            number = _NUMBER.fullmatch(word.text) or _ZIP.fullmatch(word.text)
            if not number and not _postcode(sight, at):
                break
            pending.append(at)
            found, pending = found + pending, []
        elif sight.capital(at) and text.isalpha() and text not in _IN_SENTENCES:
            if sight.marks[at] & Mark.DATE or text in ("i", "a"):
                break
            if sight.words[at - 1].text == "." and text in _TALK:
                break  # "Run Ct. We live here"
            pending.append(at)
            found, pending = found + pending, []
        elif text in _ARTICLES and step > 0:
            pending.append(at)  # counts if a name follows
        elif text in _ROOMS or _short(sight, at) or (small and _small_part(sight, at, step)):
            found, pending = [*found, *pending, at], []
        else:
            break
        at += step
    return found


def _names_number(sight: Sight, at: int) -> bool:
    """Return whether a word names the number after it, which is no part of an address."""
    if sight.lower[at] in _ROOMS or sight.lower[at] not in _NUMBER_KEYS:
        return False
    after = at + 1
    while after < len(sight.words) and sight.words[after].text in (".", ":"):
        after += 1
    if after >= len(sight.words) or sight.breaks(after):
        return False
    digits = sum(map(str.isdigit, sight.words[after].text))
    return digits > 0 and not _ZIP.fullmatch(sight.words[after].text)


def _apart(sight: Sight, place: int) -> bool:
    """Return whether a word begins another column; two blanks may stand before a postcode."""
    gap = sight.gaps[place]
    wide = "\t" in gap or ("  " in gap and "\n" not in gap)
    return wide and not _postcode(sight, place)


def _postcode(sight: Sight, at: int) -> bool:
    """Return whether a word is a postcode or half of one, in any case: "e8 1al"."""
    near = (sight.words[each].text.upper() for each in range(max(at - 1, 0), at + 1))
    after = (sight.words[each].text.upper() for each in range(at, min(at + 2, len(sight.words))))
    whole = sight.words[at].text.upper(), " ".join(near), " ".join(after)
    return any(map(identifying.is_postcode, whole))


def _short(sight: Sight, at: int) -> bool:
    """Return whether a word is an abbreviation before a number: "nr. 5", "bl 3"."""
    follows = at + 1
    if follows < len(sight.words) and sight.words[follows].text == "." and not sight.gaps[follows]:
        follows += 1
    text = sight.lower[at]
    short = len(text) < _ABBREVIATED and text not in _IN_SENTENCES | _NO_STREETS
    comma = at > 0 and sight.words[at - 1].kind is not Kind.WORD
    return short and comma and _is_number(sight, follows)


def _goes_on(sight: Sight, at: int, *, small: bool, step: int) -> bool:
    """Return whether an address goes on over a mark."""
    text = sight.words[at].text
    if text in ("-", "'", "’", "#", "/", "|"):
        return True
    if text == ".":  # of an abbreviation
        before = sight.words[at - 1] if at and not sight.gaps[at] else None
        short = before is not None and before.kind is Kind.WORD and len(before.text) <= _ABBREVIATED
        return short and sight.lower[at - 1] not in _WHOLE
    if text != ",":
        return False
    other = at + step
    if not 0 <= other < len(sight.words):
        return False
    return (
        not small
        or step < 0
        or not sight.words[other].text.islower()
        or _small_part(sight, other, step)
    )


def _small_part(sight: Sight, at: int, step: int) -> bool:
    """Return whether a word in small letters is in a short part between commas."""
    number, edge = 0, at
    for direction in (-1, 1):
        edge = at
        while 0 <= edge < len(sight.words) and number <= _MOST_PART:
            word = sight.words[edge]
            if word.kind is not Kind.WORD or (
                edge != at and sight.breaks(max(edge, edge - direction))
            ):
                break
            if sight.lower[edge] in _IN_SENTENCES | _TALK or sight.capital(edge):
                return False
            if direction < 0 and sight.lower[edge] in _AFTER_TOWNS:
                return False  # "9 rose lane since march", "9 rose lane last night"
            number += 1
            edge += direction
    return number - 1 <= _MOST_PART


def _line(sight: Sight, at: int, step: int) -> bool:
    """Return whether the line of a word is short and holds only names and numbers."""
    seen = 0
    while 0 <= at < len(sight.words) and seen <= _MOST_ON_LINE:
        word = sight.words[at]
        if word.kind is Kind.PUNCTUATION:
            if word.text[0] not in ",-.'’#/":
                return False
        elif word.kind is Kind.WORD and not sight.capital(at):
            if sight.lower[at] not in _ARTICLES and sight.lower[at] not in _ROOMS:
                return False
        elif sight.lower[at] in _IN_SENTENCES or sight.lower[at] in listed("greeting"):
            return False
        seen += word.kind is not Kind.PUNCTUATION
        at += step
        if 0 <= at < len(sight.words):
            if sight.breaks(max(at, at - step)):
                break
            if _apart(sight, max(at, at - step)):
                return False
    return seen <= _MOST_ON_LINE
