"""Hides the parts of a person that a finder misses: later mentions, initials, numbers, and dates.

A finder weighs each mention by itself. "Rose Kerr" is found, and a later "tell Rose" or "N. Kerr"
need not be.

The numbers are telephones, cards, accounts and house numbers. A number in groups is several words,
and one word alone may look like an amount. Times of day pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from sottovoce.core.privacy.cities import is_city
from sottovoce.core.privacy.identifying import is_address, is_public_code
from sottovoce.core.privacy.packages import is_package_link
from sottovoce.core.privacy.sight import Sight
from sottovoce.core.privacy.signs import GREETING, POSSESSIVES, TITLES, listed
from sottovoce.core.privacy.surrogates import identifiers, names
from sottovoce.core.privacy.surrogates.dates import OLD, Dates
from sottovoce.core.text.vocabulary import Mark, Vocabulary
from sottovoce.core.text.words import Kind

__all__ = [
    "BEDS",
    "hide_again",
    "hide_dates",
    "hide_house_numbers",
    "hide_initials",
    "hide_numbers",
    "hide_places_again",
    "is_named_day",
    "name_listed",
    "name_persons",
    "pass_times",
    "pass_titles",
]

_PERSON: Final = "persons"
_PLACE: Final = "places"
_LASTING: Final = (_PLACE, "organisations")
"""Kinds besides persons of which later mentions are hidden."""
_DOUBT: Final = 0.01
_SAY: Final = listed("person_verbs")
"""Verbs that only persons are the subject of."""
_ACTS: Final = _SAY | {"failed", "fell", "left", "loved", "starts", "who"}
_ADDRESS: Final = listed("addressed")
"""Verbs that only persons are the object of."""
_OWNED: Final = listed("owned") | listed("relations")
"""What belongs to persons: "Milo's room"."""
_WHERE: Final = listed("where")
"""What stands before places."""
_BEING: Final = frozenset({"is", "was", "'s", "’s"})
_FINITE: Final = listed("finite") | listed("person_verbs") | listed("does")
_OTHERS: Final = ~(Mark.WORD | Mark.NAME | Mark.COMMON)


def hide_places_again(
    sight: Sight, hides: list[str], known: Mapping[str, str], named: Sequence[float]
) -> None:
    """Hide words that are parts of known places and organisations, and no ordinary words.

    Args:
        hides: what each word hides; changed.
        known: what the conversation hid before: parts of names, in small letters, and their kind.
        named: the finder's probability that each word is a name. A word that only this text hides
            needs some, as a product may share the name.
    """
    found = {
        **known,
        **{sight.lower[at]: hidden for at, hidden in enumerate(hides) if hidden in _LASTING},
    }
    firms = {
        sight.lower[at]
        for at, hidden in enumerate(hides)
        if hidden == "organisations" and (not at or hides[at - 1] != hidden)
    }
    for place, hidden in enumerate(hides):
        word = sight.words[place]
        if hidden or word.kind is not Kind.WORD or word.clitic or len(word.text) < _SHORTEST_STREET:
            continue
        hides_again = found.get(sight.lower[place], "")
        sure = sight.lower[place] in known or named[place] >= _DOUBT
        marks = sight.marks[place] & ~Mark.NAME
        acts = place + 1 < len(hides) and sight.lower[place + 1] in _FINITE
        firm = sight.lower[place] in firms and sight.capital(place)
        firm = firm and (acts or not sight.begins(place))  # "Tollgate is", "I like Tollgate"
        if (sure and not marks) or (firm and not marks & _OTHERS):
            hides[place] = hides_again


def hide_again(sight: Sight, hides: list[str], known: Set[str]) -> None:
    """Hide words that are parts of known names of persons.

    An ordinary word is hidden only if it has a capital within a sentence.

    Args:
        hides: what each word hides; changed.
        known: parts of names, in small letters, that the conversation hid before.
    """
    found = {sight.lower[place] for place, hidden in enumerate(hides) if hidden == _PERSON}
    found |= known
    for place, hidden in enumerate(hides):
        word = sight.words[place]
        if hidden not in ("", "secrets") and not any(map(str.isalnum, word.text)):
            hides[place] = ""  # a sign, which an answer would not get back
        if hidden or sight.lower[place] not in found or word.kind is not Kind.WORD or word.clitic:
            continue
        marks = sight.marks[place] & ~Mark.NAME
        begins = sight.begins(place) and not _acts(sight, place)
        ordinary = marks and (marks & _OTHERS or begins or not sight.capital(place))
        if not ordinary and len(word.text) > 1:
            hides[place] = _PERSON


def _acts(sight: Sight, place: int) -> bool:
    """Return whether what only persons do follows a word: "June loved her garden"."""
    after = place + 1
    return after < len(sight.words) and sight.lower[after] in _ACTS and not sight.breaks(after)


def hide_initials(sight: Sight, hides: list[str]) -> None:
    """Hide single capitals with a full stop before the part of a person's name: "N. Kerr"."""
    for place in range(len(hides) - 3, -1, -1):
        word, stop = sight.words[place : place + 2]
        initial = len(word.text) == 1 and word.text.isupper() and word.kind is Kind.WORD
        near = not sight.gaps[place + 1] and sight.gaps[place + 2] in ("", " ")
        named = hides[place + 2] == _PERSON and sight.capital(place + 2)
        if initial and stop.text == "." and near and named and not hides[place]:
            hides[place] = _PERSON


_NAMED: Final = (_PERSON, "unlisted")
_TITLES: Final = TITLES | GREETING
_RANKS: Final = listed("ranks") | listed("more_titles") - listed("ranks_that_are_names")


_NUMERAL = re.compile(r"I|(?=[IVX]{2})X{0,2}(?:I{2,3}|I[VX]|VI{0,3}|I|X)")


def pass_titles(sight: Sight, hides: list[str]) -> None:
    """Let titles, greetings and Roman numerals pass beside a person's name.

    "Dear Dr Elena Marsh" keeps two words, "Louis XIV" one. "XI" of "Mr XI Ling" and of "XI LING" is
    a name.
    """
    for place in range(1, len(hides)):
        if hides[place] in _NAMED and _NUMERAL.fullmatch(sight.words[place].text):
            follows = place + 1 < len(hides) and sight.gaps[place + 1] == " "
            before = sight.words[place - 1].text
            name = (
                sight.capital(place - 1)
                and not before.isupper()
                and sight.lower[place - 1] not in TITLES
            )
            if name and not (follows and sight.capital(place + 1)):
                hides[place] = ""
    for place in range(len(hides) - 2, -1, -1):
        after = place + 1
        if sight.words[after].text == "." and after + 1 < len(hides):
            after += 1
        title = sight.lower[place] in _TITLES or _is_rank(sight, hides, place)
        before_name = hides[after] in _NAMED or sight.lower[after] in TITLES
        if title and before_name and hides[place] in _NAMED and not sight.breaks(after):
            hides[place] = ""


def _is_rank(sight: Sight, hides: Sequence[str], place: int) -> bool:
    """Return whether a word is a title that may also end a name: "Judge Kerr", "Aaron Judge"."""
    before = hides[place - 1] if place and sight.gaps[place] == " " else ""
    rank = sight.lower[place] in _RANKS and not sight.words[place].text.isupper()
    return rank and before not in _NAMED


def name_persons(sight: Sight, hides: list[str]) -> None:
    """Call given names persons that a finder takes for places: "Chelsea said", "Milo's room".

    Args:
        hides: what each word hides; changed. A large city is a place unless a sign tells more.
    """
    changed = _PLACE in hides
    while changed:
        persons = {sight.lower[at] for at, hidden in enumerate(hides) if hidden == _PERSON}
        changed = False
        for place, hidden in enumerate(hides):
            if hidden == _PLACE and _is_person(sight, hides, place, persons):
                hides[place], changed = _PERSON, True


_LISTING: Final = (",", "and", "or", "&")
_LISTED: Final = 0.1


def name_listed(sight: Sight, hides: list[str], persons: Sequence[float]) -> None:
    """Hide a public name in a list of persons: "our founders: Maslow, Anthony and Perry".

    Args:
        hides: what each word hides; changed.
        persons: the finder's probability that each word is a person.
    """
    for places in (range(2, len(hides)), range(len(hides) - 3, -1, -1)):
        for place in places:
            other, joint = place - 2 * places.step, place - places.step
            listed_one = hides[other] == _PERSON and sight.lower[joint] in _LISTING
            if not listed_one or hides[place] or not sight.capital(place):
                continue
            if persons[place] >= _LISTED and not sight.marks[place] & Mark.WORD:
                hides[place] = _PERSON


def _is_person(sight: Sight, hides: list[str], place: int, persons: Set[str]) -> bool:
    lower, end = sight.lower, len(hides)
    if sight.words[place].kind is not Kind.WORD or not names.gender(lower[place]):
        return False
    before = lower[place - 1] if place and not sight.breaks(place) else ""
    after, then = (lower[at] if at < end else "" for at in range(place + 1, place + 3))
    if any(0 <= at < end and hides[at] == _PLACE for at in (place - 1, place + 1)):
        return False  # part of a longer name
    if after in ("'s", "’s") and then in _OWNED:
        return True
    if before in _WHERE:
        return False
    if after in _SAY or before in _ADDRESS or (after in _BEING and then in POSSESSIVES):
        return True
    if before in ("and", "or", "&") and place > 1 and hides[place - 2] == _PERSON:
        return True
    if after in ("and", "or", "&") and place + 2 < end and hides[place + 2] == _PERSON:
        return True
    return lower[place] in persons or not is_city(lower[place])


def is_named_day(sight: Sight, place: int) -> bool:
    """Return whether a day or month, alone in its text, is before a surname: "Sunday Okoro"."""
    before = sight.lower[place - 1] if place else ""
    near = range(max(place - _NEAR_DAYS, 0), min(place + _NEAR_DAYS, len(sight.words)))
    rota = any(at != place and sight.marks[at] & Mark.DATE for at in near)
    return not rota and before not in _BEFORE_DAYS and not names.gender(sight.lower[place + 1])


_NEAR_DAYS: Final = 8
_BEFORE_DAYS: Final = listed("before_days")
"""Words after which a day or month is none of a person's names."""


_TELEPHONE = re.compile(
    r"(?<![\w.,])(?:(?:\+|\(\+?|00)\d{1,5}(?:[ .-]\d(?=[ .-]))?|\d{2,5})"
    r"(?:(?!   )[) ./-]){1,3}(?:\(0\)[ ]?)?"
    r"\(?\d{2,5}\)?(?:[ ./-]{1,2}\d{2,6}){1,4}(?!\w)"
    r"|(?<![\w.,])\(?\d{2,5}\)?[ -]\d{3,4}[ -]?\d{3,4}(?!\w)"
    r"|(?<![\w.,])\d{3,4}[ -]\d{4}(?![\w.])|(?<![\w.,])\d{3},\d{3},\d{4}(?![\w.,])"
    r"|(?<![\w.,])(?<!\d )\d{2}(?: \d{2}){2,4}(?![\w.,]| \d)"
)
"""Numbers in groups, as telephone numbers are written."""
_DIGITS: Final = (6, 20)
_AMOUNTS = re.compile(
    r"(?:\d+ )*\d+\.\d\d(?: \d+(?:\.\d\d)?)*"
    r"|(?:0|[1-9]\d{0,8})\.\d{2,3}\.\.(?:0|[1-9]\d{0,8})\.\d{2,3}"
)
"""Numbers of a row in a table, or from one to another: "10 75.00 750.00", "12.34..567.89"."""
_YEARS = re.compile(r"(?:19|20)\d\d[ -](?:19|20)\d\d")
_ACCOUNT = re.compile(
    r"(?<!\w)[A-Z]{2}\d\d(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,3})?(?!\w)"
    r"|(?<!\w)\d\d(?: \d{4}){6}(?!\w)"
)
"""The number of a bank account in groups, with the letters of the country or as in Poland."""
_ACCOUNT_DIGITS: Final = 8
_PLATE = re.compile(
    r"(?<!\w)(?:[A-Z]{2}\d\d [A-Z]{3}|(?P<parted>[A-Z]{2} \d\d [A-Z]{3}|\d[A-Z]{3}\d{3})"
    r"|(?:AP|BR|CG|CH|DL|G[AJ]|H[PR]|J[HK]|K[AL]|M[HLNPZ]|OD|P[BY]|RJ|T[NRS]|U[KP]|WB)[ -]\d\d[ -]"
    r"(?!TO|IN|OF|AT|OR|IS|BY|AND|FOR|NOT|THE)[A-Z]{1,3}[ -]\d{4}"
    r"|(?P<town>[A-ZÄÖÜ]{1,3})-(?P<letters>[A-Z]{1,2})[ -]?(?P<digits>\d{1,4})[EH]?)"
    r"(?!\w|[.,:/%-]\w)"
)
"""The number of a car, as in Britain, India and Germany: "M-AB 1234".

A ``parted`` one needs a word about cars before it: "KL 66 ORT", "7ABC123".
"""
_TOLD_PLATE = re.compile(
    r"\b(?i:(?P<short>plates?|reg|registration(?= (?:number|no|mark|plate)|:))|rego|plaka"
    r"|placas?|kenteken|kennzeichen|matrícula|targa|immat\w*|rej|biển số)"
    r"(?i:[ ](?:do carro|is|mark|no\.?|number|plate|reads?|said|says|was|were)){0,3}"
    r"(?:[.:]{0,2}[ ]{1,3}|\"?[:=] ?\")"
    r"(?P<number>[A-Z]{1,3}[ -]?\d{2,4}[ -]?[A-Z]{1,3}|\d{1,4}[ -]?[A-Z]{1,3}[ -]?\d{2,4}"
    r"|[A-Z]{2} \d{5}|\d{3,4}[ -][A-Z]{3}|[a-z]{2}\d\d ?[a-z]{3}|[A-Z]{3}-?\d[A-Z]\d\d"
    r"|(?(short)(?!))(?=[A-Z\d .-]{0,4}[A-Z])(?=[A-Z .-]{0,4}\d)(?=(?:[A-Z\d][ .-]?){5})"
    r"[A-Z\d]{1,4}(?:[ -][A-Z\d]{1,5}(?:\.\d\d)?){1,3})(?![\w.-]\w|\w)"
)
"""The number of a car after a word for it, in other forms: "plate FX 123 KD", "reg kx12 abc"."""
_OF_CARS = re.compile(
    r"\b(?:plates?|reg|registration|cars?|vans?|vehicles?|auto|wagen|pkw|lkw|fahrzeug\w*"
    r"|kfz\w*|\w*kennzeichen|nummernschild)\b",
    re.IGNORECASE,
)
_NEAR_CARS: Final = 80
_FEWEST_LETTERS: Final = 3
"""Letters of a German number that counts without a word about cars."""
_LAST_DIGITS = re.compile(
    r"\b(?:card|account|visa|mastercard|debit|credit|phone|number|iban)\b[^.!?\n]{0,30}?"
    r"\b(?:ending|ends)(?:(?: in| with|:) ?| )[*xX.]{0,12}(\d{3,6})\b",
    re.IGNORECASE,
)
_MASKED = re.compile(
    r"(?:[*•]{4}[ -]?|x{4}[ -]?){2,3}(\d{4})(?!\w)"
    r"|\b(?:account|card|iban|phone|sort|ssn|visa) last (?:four|4)(?: digits)?(?:,|:| are| is)?"
    r" (\d{4})(?!\w)",
    re.IGNORECASE,
)
"""The last digits of a number: "**** 4471", "SSN last four 4471"."""
_EXPIRY = re.compile(
    r"\b(?:exp|expiry|expires|expiring|expiration|valid|good|thru|through)\b[^\w\n]{0,3}"
    r"(?:(?:date|thru|through|until|to|on|is)\W{1,3}){0,2}(\d\d ?[/-] ?(?:\d\d|20\d\d))\b",
    re.IGNORECASE,
)
"""The month that a card is valid to."""
_OF_CARDS = re.compile(r"\b(?:card|visa|mastercard|amex|cvc2?|cvv2?)\b", re.IGNORECASE)

_PAIR = re.compile(
    r"(?<![\w.])[+-]?(\d{1,2})\.(\d{3,})(?:[ ]?°)?[ ]?[NS]?[,;/ ][ ]?"
    r"[+-]?(\d{1,3})\.(\d{3,})(?:[ ]?°)?[ ]?[EWO]?(?!\w|\.\d|[ ]?,[ ]?[+-]?\d)"
)
"""Two numbers that may be latitude and longitude."""
_DEGREES = re.compile(
    r"\d{1,3}(?:\.\d{3,})?[ ]?(?:°|deg(?=[ ]\d{1,2}[.\d]*'))[ ]?(?:\d{1,2}(?:\.\d+)?[ ]?['′’][ ]?"
    r"(?:\d{1,2}(?:\.\d+)?[ ]?(?:[\"″”]|'')[ ]?)?)?[NSEWO]\b"
)
_OF_SPOTS: Final = listed("of_spots")
_NEAR_SPOTS: Final = 40
_DECIMALS: Final = 4
"""Decimals from which two numbers may be a place without a word about places."""


def _spots(document: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield places on a map: "51.5074, -0.1278", "51°30'26\"N"."""
    if "°" in document or "deg" in document:
        yield from (match.span() for match in _DEGREES.finditer(document, start, end))
    for match in _PAIR.finditer(document, start, end):
        near = document[max(match.start() - _NEAR_SPOTS, start) : match.start()]
        north, east = int(match[1]), int(match[3])
        exact = min(len(match[2]), len(match[4])) >= _DECIMALS and not near.endswith((", ", ","))
        far = max(north, east) >= 10 or "-" in match[0] or min(north, east) > 0
        told = "°" in match[0] or match[0][-1].isalpha() or _has(near, _OF_SPOTS)
        if north <= 90 and east <= 180 and (told or (exact and far)):
            yield match.span()


_ROW = re.compile(r"\d+(?:[ \t]+\d+)+")
_OF_NUMBERS: Final = listed("contact_keys") | listed("number_keys") | listed("calls")
_REDUCED = re.compile(
    r"\b(?:average|maximum|mean|median|minimum|mode|product|sum|variance) of:? ?\Z", re.IGNORECASE
)
"""What is asked of the numbers that follow."""
_MOST_ROWS: Final = 40
_LONGEST_LINE: Final = 200
"""Characters on either side that are looked at, and those of a line above."""


def _is_row(document: str, start: int, end: int) -> bool:
    """Return whether numbers between blanks are amounts: "2019 2020 2021", a row below a header.

    A word about telephones or accounts on the line, or in the header, tells that they are none.
    """
    if not _ROW.fullmatch(document, start, end):
        return False
    floor = max(start - _LONGEST_LINE, 0)
    begin = max(document.rfind("\n", floor, start) + 1, floor)
    line = document[begin : end + _LONGEST_LINE].partition("\n")[0]
    if _has(line, _OF_NUMBERS):
        return False
    groups = document[start:end].split()
    if any(len(each) > 1 and each[0] == "0" for each in groups):
        return False  # no amount, but a part of a telephone
    numbers = [*map(int, groups)]
    ordered = numbers in (sorted(numbers), sorted(numbers, reverse=True))
    round_ones = len(groups) > 2 and ordered and all(each[-1] == "0" for each in groups)
    if round_ones or all(map(_YEAR.fullmatch, groups)) or _REDUCED.search(document[begin:start]):
        return True
    columns = len(line.split())
    for _ in range(_MOST_ROWS):
        if not begin or document[begin - 1] != "\n":
            break
        floor = max(begin - 1 - _LONGEST_LINE, 0)
        found = document.rfind("\n", floor, begin - 1)
        line, begin = document[max(found + 1, floor) : begin - 1], found + 1
        if (found < 0 < floor) or len(line.split()) != columns:
            break
        if not any(map(str.isdigit, line)):
            return not _has(line, _OF_NUMBERS)
    return False


_LETTERS = re.compile(r"[^\W\d_]+")


def _has(text: str, told: Set[str]) -> bool:
    return not told.isdisjoint(_LETTERS.findall(text.lower()))


_OF_LIVES: Final = (
    listed("relations")
    | (listed("people") - {"he", "her", "his", "she", "their", "they"})
    | (listed("date_keys") | listed("secret_keys") | listed("private"))
    | {"appt", "died", "password", "safe", "visit"}
)
"""Words of a text in which an old date is somebody's, or misspelt."""


def hide_dates(dates: Dates, sight: Sight, hides: list[str], *, dated: bool) -> None:
    """Hide dates; a month of a year only where a full date would reveal it.

    Args:
        dates: of the document.
        sight, hides: of its words.
        dated: whether the conversation drew a full date before.
    """
    words, public = sight.words, dates.old and _OF_LIVES.isdisjoint(sight.lower)
    for date in dates.within(words[0].start, words[-1].end):
        reading = date.readings[0]
        old = public and (dates.full or reading.day.year in OLD)
        if reading.day.day or dates.full or dated:
            for field, start, end in reading.spots:
                if field not in "sf":
                    for place in sight.within(start, end):
                        if not is_package_link(words[place].text):
                            hides[place] = "" if old else "dates"


def hide_numbers(document: str, sight: Sight, hides: list[str]) -> None:
    """Hide places on a map, and numbers that are one telephone, card or account in groups."""
    words = sight.words
    if not words:
        return
    ends = words[-1].end
    spans = []
    if "end" in document or "END" in document:  # far faster than the expression
        spans = [match.span(1) for match in _LAST_DIGITS.finditer(document, words[0].start, ends)]
    masked = _MASKED.finditer(document, words[0].start, ends)
    spans += (match.span(match.lastindex or 0) for match in masked)
    spans += (
        match.span()
        for match in _ACCOUNT.finditer(document, words[0].start, ends)
        if sum(map(str.isdigit, match[0])) >= _ACCOUNT_DIGITS
    )
    plates = _PLATE.finditer(document, words[0].start, ends)
    spans += (match.span() for match in plates if _is_plate(document, match))
    spans += (each.span("number") for each in _TOLD_PLATE.finditer(document, words[0].start, ends))
    if _OF_CARDS.search(document, words[0].start, ends):
        spans += (each.span(1) for each in _EXPIRY.finditer(document, words[0].start, ends))
    spots = [*_spots(document, words[0].start, ends)]
    for span, kind in (*((each, "numbers") for each in spans), *((at, _PLACE) for at in spots)):
        for at in sight.within(*span):
            if kind != _PLACE or words[at].kind is Kind.IDENTIFIER:
                hides[at] = kind
    for match in _TELEPHONE.finditer(document, words[0].start, words[-1].end):
        digits = sum(map(str.isdigit, match[0]))
        if not _DIGITS[0] <= digits <= _DIGITS[1] or _YEARS.fullmatch(match[0]):
            continue
        if _begins_with_date(match[0]) or _AMOUNTS.fullmatch(match[0]):
            continue
        if _is_row(document, *match.span()):
            continue
        places = [*sight.within(*match.span())]
        if any(is_address(words[at].text) for at in places):
            continue
        for at in places:
            if words[at].kind is Kind.IDENTIFIER and not is_public_code(words[at].text):
                hides[at] = "contacts"
    start = 0
    while start < len(hides):
        end = start
        while end < len(hides) and words[end].kind is Kind.IDENTIFIER:
            if end > start and sight.gaps[end] != " ":
                break
            end += 1
        for run in identifiers.runs([word.text for word in words[start:end]]):
            first, last = start + run.start, start + run.stop - 1
            if last > first and not _is_row(document, words[first].start, words[last].end):
                hides[first : last + 1] = ["numbers"] * (last + 1 - first)
        start = max(end, start + 1)


def _is_plate(document: str, found: re.Match[str]) -> bool:
    """Return whether a match is the number of a car and no term as "HDL-C 45"."""
    if not found["town"] and not found["parted"]:
        return True
    begin = document.rfind("\n", max(found.start() - _NEAR_CARS, 0), found.start()) + 1
    if _OF_CARS.search(document, max(begin, found.start() - _NEAR_CARS), found.start()):
        return True
    if found["parted"]:
        return False  # "IN 24 HRS"
    town, letters = found["town"], found["letters"]
    marks = Vocabulary.shipped().marks
    term = len(town) > 1 and marks(town) and (len(letters) == 1 or marks(letters))
    digits = len(found["digits"])
    term |= letters in ("XL", "XS")
    fewest = len(town + letters) >= _FEWEST_LETTERS and digits > 1
    return fewest and (not term or (digits > 2 and len(letters) > 1))  # not "AC-DC 12"


def _begins_with_date(text: str) -> bool:
    return "date" in (identifiers.shape(text).sort, identifiers.shape(text.split()[0]).sort)


def hide_house_numbers(sight: Sight, hides: list[str]) -> None:
    """Hide a number of an address that stands beside a found place: "Thulegatan 78"."""
    for place in range(len(sight.words) - 1, -1, -1):
        word = sight.words[place]
        house = word.kind is Kind.IDENTIFIER and _HOUSE.fullmatch(word.text)
        if not house or hides[place] or _YEAR.fullmatch(word.text):
            continue
        if place and sight.lower[place - 1] in BEDS:
            continue  # "Bed 3 Faith"
        if place + 1 < len(hides) and sight.lower[place + 1] in ("am", "pm"):
            continue
        for other in (place - 1, place + 1):
            if not 0 <= other < len(hides) or sight.breaks(max(place, other)):
                continue
            if not sight.gaps[max(place, other)] or len(sight.lower[other]) < _SHORTEST_STREET:
                continue
            if hides[other] == _PLACE:
                address = sight.capital(other) or other > place
            else:
                short = hides[other] == "unlisted" and sight.words[other].text.isupper()
                found = hides[other] in _NAMED and sight.capital(other) and not short
                titled = other > 0 and sight.lower[other - 1] in TITLES
                address = found and not titled and _may_be_street(sight, other, place)
            if address:
                hides[place] = _PLACE


def _may_be_street(sight: Sight, place: int, number: int) -> bool:
    """Return whether a found name may be a street's: "Thulegatan 78".

    A given name is none in a list of given names and numbers: "Anna 34, Piotr 31".
    """
    near = range(max(number - _NEAR, 1), min(number + _NEAR + 1, len(sight.words)))
    aged = [at for at in near if _COUNT.fullmatch(sight.lower[at]) and _is_given(sight, at - 1)]
    return not (_is_given(sight, place) and aged[1:])


def _is_given(sight: Sight, place: int) -> bool:
    return bool(names.gender(sight.lower[place]))


BEDS: Final = frozenset({"bed", "cubicle", "rm"})
_SHORTEST_STREET: Final = 3
_NEAR: Final = 5
_YEAR = re.compile(r"(?:19|20)\d\d")
_HOUSE = re.compile(r"\d{1,4}[A-Za-z]?(?:[-/]\d{1,3}[A-Za-z]?)?")
_COUNT = re.compile(r"[$€£]?\d{1,4}(?:[.,]\d{1,2})?[A-Za-z]?")
"""An age, or an amount: "Anna 34, Piotr 27.50"."""


_TIME = re.compile(r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?")
_ZONE = re.compile(r"[+-]\d{2}:?\d\d")


def pass_times(sight: Sight, hides: list[str]) -> None:
    """Let times of day and their zones pass that stand beside numbers: "1979-03-14 10:15 +0100"."""
    for place, word in enumerate(sight.words):
        if hides[place] == "contacts" and word.kind is Kind.IDENTIFIER:
            near = [each.text for each in sight.words[max(place - 2, 0) : place]]
            if near and _YEAR.fullmatch(near[-1]):
                near.pop()  # "Thu Feb 8 16:21:09 2024 +0100"
            zone = _ZONE.fullmatch(word.text) and near
            if _TIME.fullmatch(word.text) or (zone and _TIME.fullmatch(near[-1])):
                hides[place] = ""
