"""Finds written dates, and writes them again with other numbers.

A date keeps the form in which it was typed: "14.3.79", "March 14th, 1979", "1979-03-14T10:15:00Z".

"4/3", "3.4." and "20260312" may be other numbers, so they count only beside a sign of a date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from sottovoce.core.privacy.signs import listed
from sottovoce.core.privacy.surrogates import case, ordinal_ending
from sottovoce.core.privacy.surrogates.identifiers import (
    MONTH_NUMBERS,
    MONTHS,
    OTHER_MONTHS,
    SHORT_MONTHS,
)
from sottovoce.core.text import word_classes
from sottovoce.core.text.words import UNSPACED

LONGEST: Final = 64
"""No date, with what must be seen after it, has more characters."""

_DAY_FIRST: Final = "dmy"
_MONTH_FIRST: Final = "mdy"
_FROM_ZERO: Final = "ym0d"
_LAST = re.compile(r"\d{1,4}(?:st|nd|rd|th)?")
_BACK: Final = 200
"""Characters before a part of a text that are searched as well, as a date may begin in them."""
_PIVOT: Final = 69
"""Two digits of a year from here on are of the 20th century, as POSIX reads them."""
LEAP: Final = 2000
OLD: Final = range(1500, 1900)
_MINUTES: Final = 60
"""Digits of a year that may be minutes: "12 June 1745" may be a quarter to six."""
"""Years of nobody alive."""


class Day(NamedTuple):
    """A date, with a 0 for a missing year or day of the month."""

    year: int
    month: int
    day: int

    @property
    def full(self) -> bool:
        """Return whether day, month and year are written."""
        return bool(self.year and self.day)


class Reading(NamedTuple):
    """One way to read a date.

    Attributes:
        order: "dmy", "mdy", "ymd", or "ym0d" where January is 0.
        day: the date.
        spots: what is written where, as a letter of "ymdesf" and two places. "e" is an earlier
            day of the same month, as in "3 to 5 March"; "s" and "f" are the endings of the ordinal
            numbers "d" and "e".
    """

    order: str
    day: Day
    spots: tuple[tuple[str, int, int], ...]


class Written(NamedTuple):
    """A date in a text.

    >>> [each.readings[0].day for each in Dates("born 14/03/1979, wed on May 3rd").within(0, 31)]
    [Day(year=1979, month=3, day=14), Day(year=0, month=5, day=3)]

    Attributes:
        start, end: its place, with the time of day that is joined to it.
        readings: the likelier one first; two where day and month can be exchanged.
        doubtful: whether it is a date only beside a sign of one: "4/3", "3.4.", "20260312".
    """

    start: int
    end: int
    readings: tuple[Reading, ...]
    doubtful: bool = False

    def rewritten(self, text: str, day: Day, reading: Reading | None = None) -> str:
        """Return the date with other numbers, in the same form.

        Args:
            text: where it stands.
            reading: of this date; the likelier one by default.
        """
        return self.part(text, self.start, self.end, day, reading)

    def part(
        self, text: str, start: int, end: int, day: Day, reading: Reading | None = None
    ) -> str:
        """Return the text between two places within the date; see `rewritten`."""
        out: list[str] = []
        done = start
        for first, last, new in _edits(text, reading or self.readings[0], day):
            if start <= first and last <= end:
                out += (text[done:first], new)
                done = last
        return "".join((*out, text[done:end]))


_ENGLISH: Final = frozenset((*MONTHS, "sept", *SHORT_MONTHS))
_OTHER_WORDS: Final = listed("doubtful_months")
"""Months that are names or other words. Without a year they count only beside a sign of a date."""
_LETTER: Final = rf"[^\W{UNSPACED}]"
"""A letter or digit of a script with spaces; a date may touch others: "生于1979-03-14"."""
_BEFORE = re.compile(rf"(?<!{_LETTER})(?<!\d[-/.:])")
_NEXT: Final = (
    r"-(?:\d\d?[-/.]\d\d?[-/.](?:\d{4}|\d\d)(?!\w)"
    rf"|\d\d?(?:st|nd|rd|th)?[. /-]?[ ]?(?:{'|'.join(MONTH_NUMBERS)})(?!\w))"
    r"|-\d\d?/\d{4}(?!\w)|[-/]\d{4}-\d\d(?:-\d\d)?(?!\w)"
)
"""The second date of "14/03/1979-02/04/1979"."""
_AFTER: Final = rf"(?:(?!{_LETTER}|:)(?![-/.,]\d)|(?=T\d)|(?=:\d\d:\d)|(?={_NEXT}))"
_ENDS: Final = rf"(?:(?!{_LETTER}|:)(?![-/.]\d)|(?=T\d)|(?=:\d\d:\d)|(?={_NEXT}))"
"""The end of a date of numbers, which a comma and another value may follow."""
_EARLIER: Final = (
    r"(?P<{0}e>\d{{1,2}})(?P<{0}f>st|nd|rd|th)?\.?"
    r"(?:[ ]?[-/–—&][ ]?|[ ](?:to|and|until|till|through|or|al|au|bis|do|e|et|und|y)[ ])"
)
"""The first day of "3 to 5 March"."""
_ORDINAL: Final = r"(?P<{0}d>\d{{1,2}})(?P<{0}s>st|nd|rd|th)?"
_NAME: Final = r"[^\W\d_]{3,12}+"
"""A word that may be the name of a month."""
_CALLED: Final = r"(?:(?<=date\()|(?<=DATE\()|(?<=[Tt]ime\()|(?<=(?:Date|Time)\.of\())"
"""Before year, month and day."""
_CALLED_FROM_ZERO: Final = r"(?:(?<=new Date\()|(?<=Date\.UTC\())"
"""The same in JavaScript, whose months begin with 0."""
_PATTERNS: Final = (
    rf"(?P<iy>\d{{4}})(?P<sep>[-/.])(?P<im>\d{{1,2}})(?P=sep)(?P<id>\d{{1,2}}){_ENDS}",
    rf"(?P<na>\d{{1,2}})(?P<sign>[-/.])(?P<nb>\d{{1,2}})(?P=sign)(?P<ny>\d{{4}}|\d\d){_ENDS}",
    rf"(?:{_EARLIER.format('d')})?{_ORDINAL.format('d')}"
    rf"(?:\.?[ \xa0]|(?P<dash>[-/])|\.|)(?:(?:of|de)[ ])?(?P<dm>{_NAME})"
    rf"(?:(?:\.?,?[ \xa0](?:de[ ])?|[-/.,]|)(?P<dy>[12]\d{{3}}){_AFTER}"
    rf"|(?:(?(dash)[-/]|(?!))|[ ]?['’])(?P<dz>\d\d){_AFTER}|(?!\w))",
    rf"(?P<mm>{_NAME})(?:\.?[ \xa0]{{1,2}}|[-/]|)(?:the[ ])?"
    rf"(?:{_EARLIER.format('m')})?{_ORDINAL.format('m')}"
    rf"(?:(?:,?[ \xa0](?:\d\d:\d\d:\d\d[ ])?|[-/]|,)(?P<my>[12]\d{{3}}){_AFTER}"
    rf"|,?[ ]?['’](?P<mz>\d\d){_AFTER}"
    rf"|(?![\w:])(?![-/.]\d))",
    rf"(?P<ym>{_NAME})(?:(?:\.?,?[ \xa0]|[-/])(?:(?:of|de)[ ])?(?P<yy>[12]\d{{3}})"
    rf"|\.?[ ]?['’](?P<yz>\d\d)){_AFTER}",
    r"(?:(?P<jy>[12]\d{3})[年년][ ]?|(?=\d\d?[月월][ ]?\d\d?[日号일]))"
    r"(?P<jm>\d\d?)[月월](?:[ ]?(?P<jd>\d\d?)[日号일])?",
    rf"(?-i:{_CALLED})(?P<ty>[12]\d{{3}}),[ ]?(?P<tm>\d\d?),[ ]?(?P<td>\d\d?)(?=[,)])",
    rf"(?-i:{_CALLED_FROM_ZERO})(?P<zy>[12]\d{{3}}),[ ]?(?P<zm>\d\d?),[ ]?(?P<zd>\d\d?)(?=[,)])",
)
"""1979-03-14, 14.3.79, 14 March 1979, March 14th, 1979, March 1979, 1979年3月14日, and
date(1979, 3, 14). The first letter of a group's name says which of them, and the second which part
of a date."""
_ALONE: Final = r"(?<![^\W\d_]-)(?<![#$€£])"
"""Before a month of a year, which "RFC-2012-07" and "$12/2020" are not."""
_DOUBTFUL: Final = (
    r"(?P<cy>(?:19|20)\d\d)(?P<cm>\d\d)(?P<cd>\d\d)(?:(?=T\d{4})|(?![\w:])(?![-/.]\d))",
    r"(?P<sa>\d{1,2})/(?P<sb>\d{1,2})(?!\w)(?![-/.,:]\d)",
    r"(?P<gd>\d{1,2})\.(?P<gm>\d{1,2})\.(?!\w)",
    rf"{_ALONE}(?P<xm>0?[1-9]|1[0-2])[-/.](?P<xy>(?:19|20)\d\d){_ENDS}",
    rf"{_ALONE}(?P<wy>(?:19|20)\d\d)[-/](?P<wm>0[1-9]|1[0-2]){_ENDS}",
)
"""19790314, 14/3, 14.3. in German, 03/1979, and 1979-03."""
_FORMS, _DOUBTFUL_FORMS = (
    re.compile("|".join(patterns), re.IGNORECASE) for patterns in (_PATTERNS, _DOUBTFUL)
)
_DIGIT = re.compile(r"(?<!\d)\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_MONTH_REACH: Final = 16
"""Characters from the first of a month's name to the first digit after it, at most."""
_TOLD = re.compile(
    r"(?:^|[^\w])(?P<sign>[^\W\d_]+(?:-[^\W\d_]+)?)[.:,=]{0,2}[ \t]{0,2}"
    r"(?:(?:the|den|dem)[ ])?\(?\Z"
)
"""A sign before a date: "since 4/3", "Tue, 4/3", "due: 4/3"."""
_SIGNS: Final = listed("date_signs") | listed("foreign_weekdays")
_MONTH_SIGNS: Final = _SIGNS | {"after", "au", "before", "between", "du", "from"}
_BEFORE_VERBS: Final = listed("before_verbs")
_EXPIRY: Final = frozenset({"exp", "expiration", "expires", "expiry", "thru", "valid"})
"""Signs of a card's last month. Cards are valid for few years, so a shift of it would show much."""
_IMPROPER: Final = ("by", "from", "to", "and")
"""Signs of a day over 12, as such a fraction is rare."""
_FRACTION = re.compile(
    r"\s?[″%+*=<>÷×^]|[ -]?(?:of|inch|inches|in|ft|cups?|tsp|tbsp|teaspoons?|tablespoons?|lbs?|oz"
    r"|pints?|miles?|hours?|full|empty|times?|size|lengths?|ths?|x|de|des|der)\b",
    re.IGNORECASE,
)
"""What follows a fraction: "3/4 of", "3/4 inch"."""
_WEAK_SIGNS: Final = frozenset({"on", "until", "till", "since"})
"""Signs that also stand before fractions: "until 3/4 done"."""
_GOES_ON = re.compile(
    r"\s*(?:[.,;:!?)\]\"'”’]|\Z|\n)|\s+(?:[A-Z]|(?:and|as|at|because|but|by|for|from|he|i|if|in|it|my"
    r"|or|she|so|that|the|then|they|to|until|we|when|which|with)\b)"
)
"""What follows a date rather than a fraction."""
_AT = re.compile(r"[ ]?(?:,|at|@|um)[ ]?\d{1,2}(?:[:.]\d\d|[ ]?[ap]m\b|[ ]Uhr)", re.IGNORECASE)
"""A time of day after a date."""
_NO_DAYS: Final = frozenset({"24/7", "9/11"})
_BEFORE_SIGN: Final = 24
_SERIES: Final = 80
"""Characters within which a date of the same form follows without a sign of its own."""
_TIME = re.compile(r"[T:]\d\d(?::?\d\d){0,2}(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?(?!\w)")
_VERBS: Final = frozenset({"may", "march", "mar"})
"""Months that are other words in small letters: "you may 3 times"."""
_IN_CELLS: Final = frozenset(",;|\t")
COMPOUND = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
"""A word that may hold the end of one date and the beginning of another: "1979-Apr"."""

_FIRST = re.compile(r"(?:\d{1,4}|\d{8})(?!\d)|(?P<name>[^\W\d_]{3,12}+)")
_INSIDE = re.compile(r"(?:[^\W_]|[ \xa0.,:/&'’–—-])*")
_PIECES = re.compile(r"(?<=\d)(?:st|nd|rd|th)(?=[^\W\d_])|[^\W\d_]+|\d+", re.IGNORECASE)
_KNOWN: Final = frozenset(
    (
        *MONTH_NUMBERS,
        *("of", "de", "the", "st", "nd", "rd", "th", "t"),
        *("to", "and", "until", "till", "through", "or"),
        *("al", "au", "bis", "do", "e", "et", "und", "y"),
        *"年月日号년월일",
    )
)
"""Words that may stand in a date."""
_BEGUN: Final = frozenset(word[:end] for word in _KNOWN for end in range(1, len(word) + 1))


def begins(word: str) -> bool:
    """Return whether a date may begin with this run of letters and digits."""
    first = _FIRST.match(word)
    return first is not None and (not first["name"] or first["name"].lower() in MONTH_NUMBERS)


def ends(word: str) -> bool:
    """Return whether a date may end with this run of letters and digits, in small letters."""
    return word in MONTH_NUMBERS or _LAST.fullmatch(word) is not None


def goes_on(text: str, start: int) -> bool:
    """Return whether more text could change what `match` finds at ``start``."""
    if len(text) - start >= LONGEST:
        return False
    inside = _INSIDE.match(text, start)
    if inside is None or inside.end() < len(text):
        return False
    pieces = _PIECES.findall(text, start)
    for place, piece in enumerate(pieces):
        if piece.isdigit():
            if len(piece) > 4:
                return False
        elif piece.lower() not in (_BEGUN if place == len(pieces) - 1 else _KNOWN):
            return False
    return True


def match(text: str, start: int, *, second: bool = False) -> Written | None:
    """Return the date that begins at ``start``, without the time of day.

    ``second`` says that a date and a hyphen precede it.
    """
    return _match(text, start, len(text), second=second)


def parse(text: str) -> Written | None:
    """Return the date that a text is; None for other texts."""
    found = match(text, 0)
    if found is None:
        return None
    time = _TIME.match(text, found.end)
    end = time.end() if time else found.end
    return found._replace(end=end) if end == len(text) else None


class Dates:
    """The dates of a text, read alike wherever they stand.

    Numbers like 03/04/2024 are read day first, or month first if the other dates in the text that
    can be read in one way only are month first.

    Attributes:
        full: whether one has day, month and year.
        old: whether all name the month, are of 1500 to 1899, and end in no time of day.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.full, self.old, orders = False, True, set()
        for written in _find(text, 0, len(text)):
            day, named = written.readings[0].day, _month_of(text, written.readings[0]).isalpha()
            self.full |= day.full
            timed = day.year % 100 < _MINUTES and "," not in text[written.start : written.end]
            self.old &= not day.day or (named and day.year in OLD and not timed)
            if len(written.readings) == 1:
                orders.add(written.readings[0].order)
        self._month_first = _MONTH_FIRST in orders and _DAY_FIRST not in orders

    def within(self, start: int, end: int) -> Iterator[Written]:
        """Yield the dates that stand in a part of the text, in order and apart."""
        begin = max(self._text.rfind("\n", 0, start) + 1, start - _BACK, 0)
        for written in _find(self._text, begin, min(end + LONGEST, len(self._text))):
            if written.start >= end:
                return
            if written.end > start:
                flip = self._month_first and written.readings[0].order == _DAY_FIRST
                yield written._replace(readings=written.readings[::-1]) if flip else written


def _find(text: str, start: int, end: int) -> Iterator[Written]:
    """Yield the dates. All have digits, which are found faster than names of months."""
    done, told, last = start, -_SERIES, -1
    for digit in _DIGIT.finditer(text, start, end):
        first = digit.start()
        if first < done:
            continue
        month = _month_before(text, max(first - _MONTH_REACH, done), first)
        for place in (first,) if month is None else (month, first):
            second = place - 1 == last and text[last] in "-/"
            if written := _match(text, place, end, second=second):
                if written.doubtful:
                    if not _is_told(text, written, told):
                        break
                    told = written.end if written.readings[0].day.day else told
                time = _TIME.match(text, written.end, end)
                done = last = time.end() if time else written.end
                yield written._replace(end=done)
                break


def _is_told(text: str, written: Written, told: int) -> bool:
    """Return whether a doubtful date has a sign, or follows a date that ends at ``told``."""
    start, end = written.start, written.end
    if text[end : end + 1] == "T":
        return True
    day, number = written.readings[0].day, text[start:end]
    sign = _TOLD.search(text, max(start - _BEFORE_SIGN, 0), start)
    word = sign["sign"].lower() if sign else ""
    if not day.day:  # it counts beside full dates only
        return word not in _EXPIRY
    name = _month_of(text, written.readings[0])
    if name.isalpha():
        if word in ("is", "was"):
            return not _FRACTION.match(text, end)  # "is march 2 miles"
        if word in _MONTH_SIGNS or " de " in number or text.endswith(" den ", 0, start):
            return True
        noun = name in _VERBS and word not in _BEFORE_VERBS
        return noun and _GOES_ON.match(text, end) is not None
    follows = text[end : end + 1] in _IN_CELLS and not text[end + 1 : end + 2].isspace()
    if day.year and (follows or text[start - 1 : start] in _IN_CELLS):
        return True
    if _FRACTION.match(text, end) or number in _NO_DAYS:
        return False
    improper = day.day > 12 and not day.year
    fits = improper or "/" not in number or _GOES_ON.match(text, end) is not None
    if word in _SIGNS and (fits or word not in _WEAK_SIGNS):
        return True
    if day.year or number[-1] == ".":
        return False
    if (improper and word in _IMPROPER) or _AT.match(text, end):
        return True
    near = start - told < _SERIES and "\n" not in text[told:start]
    return near and fits and text[max(start - 3, 0) : start].rstrip()[-1:] not in _OPERATORS


_OPERATORS: Final = frozenset("+-*/=<>÷×^")


def _month_before(text: str, start: int, end: int) -> int | None:
    """Return the start of a month's name if it is the last word, ignoring "the" and "of"."""
    if not text[start:end].rstrip(" .,-/\xa0'’")[-1:].isalpha():
        return None
    for word in reversed([*_LETTERS.finditer(text, start, end)]):
        name = word[0].lower()
        if name not in ("the", "of", "de"):
            return word.start() if name in MONTH_NUMBERS else None
    return None


def _match(text: str, start: int, end: int, *, second: bool) -> Written | None:
    if not second and not _BEFORE.match(text, start):
        return None
    found = _FORMS.match(text, start, end)
    name = found and (found["dm"] or found["mm"] or found["ym"])
    if found is None or (name and name.lower() not in MONTH_NUMBERS):
        found = _DOUBTFUL_FORMS.match(text, start, end)
    return _written(found) if found else None


_ORDERS: Final = {
    **dict.fromkeys("ijtcw", "ymd"),
    **dict.fromkeys("dmyx", ""),
    "g": _DAY_FIRST,
    "z": _FROM_ZERO,
}
"""How the forms that have one order are read, by the first letter of their groups."""


def _written(found: re.Match[str]) -> Written | None:
    doubtful = found.re is _DOUBTFUL_FORMS
    for prefix, order in _ORDERS.items():
        spots = tuple(
            (field.replace("z", "y"), *found.span(prefix + field))
            for field in "efdmyzs"
            if prefix + field in found.re.groupindex and found[prefix + field]
        )
        if any(field == "m" for field, _, _ in spots):
            readings = [_reading(found, order, spots)]
            break
    else:
        form = "s" if doubtful else "n"
        a, b = found.span(form + "a"), found.span(form + "b")
        y = () if doubtful else (("y", *found.span("ny")),)
        readings = [
            _reading(found, _DAY_FIRST, (("d", *a), ("m", *b), *y)),
            _reading(found, _MONTH_FIRST, (("m", *a), ("d", *b), *y)),
        ]
    known = tuple(each for each in readings if each)
    if not doubtful and found["sign"] == ".":
        known = known[:1]  # nobody writes the month first with full stops
    if known and not known[0].day.year:
        name = _month_of(found.string, known[0])
        ordinal = any(field == "s" for field, _, _ in known[0].spots)
        doubtful |= not ordinal and (name in _VERBS or name.lower() in _OTHER_WORDS)
    return Written(*found.span(), known, doubtful) if known else None


def _month_of(text: str, reading: Reading) -> str:
    return next(text[start:end] for field, start, end in reading.spots if field == "m")


def _reading(
    found: re.Match[str], order: str, spots: Sequence[tuple[str, int, int]]
) -> Reading | None:
    """Return the spots' reading; None if the calendar lacks the day, or a word is no month."""
    text = found.string
    said = {field: text[start:end] for field, start, end in spots}
    name = said["m"].lower()
    number = MONTH_NUMBERS.get(name) or (int(name) if name.isdecimal() else 0)
    number += order == _FROM_ZERO
    year, day = int(said.get("y", "0")), int(said.get("d", "0"))
    if len(said.get("y", "")) == 2:
        year += 1900 if year >= _PIVOT else 2000
    if not (name in _ENGLISH or name.isdecimal() or year or found["dm"]):
        return None
    if "d" in said and not day:
        return None
    try:
        date(year or LEAP, number, day or 1)
    except ValueError:
        return None
    if "e" in said and not 0 < int(said["e"]) < day:
        return None
    return Reading(order, Day(year, number, day), tuple(sorted(spots, key=lambda spot: spot[1])))


def _edits(text: str, reading: Reading, day: Day) -> Iterator[tuple[int, int, str]]:
    """Yield the edits that turn a date in ``text`` into another: two places and a text."""
    said = {field: text[start:end] for field, start, end in reading.spots}
    ends = {field: end for field, _, end in reading.spots}
    numbers = [said[field] for field in "dm" if said.get(field, "a").isdecimal()]
    zero = any(number[0] == "0" for number in numbers)
    width = 2 if zero or (len(numbers) > 1 and all(len(n) == 2 for n in numbers)) else 1
    if reading.spots[0][0] == "y" and text[ends["y"]] == ",":
        width = 1  # "date(1979, 3, 14)"
    if numbers == [said["m"]]:
        width = len(said["m"])
    months = {"m": day.month}
    written = {"d": str(day.day).zfill(width), "y": f"{day.year:04}"[-len(said.get("y", "")) :]}
    written["s"] = ordinal_ending(day.day, said.get("s", ""))
    if "e" in said:
        apart = reading.day.day - int(said["e"])
        earlier = date(day.year or LEAP, day.month, day.day) - timedelta(days=apart)
        written["e"] = str(earlier.day).zfill(width)
        written["f"] = ordinal_ending(earlier.day, said.get("f", ""))
        if earlier.month != day.month:  # the other month is written as well
            fields = [field for field, _, _ in reading.spots]
            names = {
                month: _month(said["m"], text, reading, month)
                for month in (earlier.month, day.month)
            }
            if fields.index("m") < fields.index("e"):
                months["m"] = earlier.month
                written["d"] = f"{names[day.month]} {written['d']}"
            else:
                dot = "." * (text[ends["e"]] == ".")
                written["f" if "f" in said else "e"] += f"{dot} {names[earlier.month]}"
    month = months["m"]
    named = not said["m"].isdecimal()
    number = month - (reading.order == _FROM_ZERO)
    written["m"] = _month(said["m"], text, reading, month) if named else str(number).zfill(width)
    for field, start, end in reading.spots:
        yield start, end, written[field]


def _month(like: str, text: str, reading: Reading, month: int) -> str:
    """Return the name of a month, as long as another in the text and in its case."""
    end = next(end for field, _, end in reading.spots if field == "m")
    short = like.lower() not in MONTHS or (len(like) == 3 and text[end : end + 1] == ".")
    names = SHORT_MONTHS if short else MONTHS
    german = not short and any(
        field == "d" and text[last : last + 1] == "." for field, _, last in reading.spots
    )
    if german and like.lower() in OTHER_MONTHS[0]:
        names = OTHER_MONTHS[0]  # "14. November", which English writes alike
    elif like.lower() not in _ENGLISH:
        known = [names for names in OTHER_MONTHS if like.lower() in names]
        small = like[0].islower() and len(known) > 1 and known[0] is OTHER_MONTHS[0]
        names = known[1 if small else 0]
    name = names[month - 1]
    return word_classes.apply(word_classes.Case(case(like)), name)


def parts(text: str) -> list[str]:
    """Return the dates in a text; the two days of one month are two.

    >>> parts("3 to 5 March 2021"), parts("31 March to 2 April")
    (['3 March', '5 March 2021'], ['31 March', '2 April'])
    """
    if written := parse(text):
        said = {field: (start, end) for field, start, end in written.readings[0].spots}
        if "e" not in said:
            return [text]
        (start, end), month = said["e"], text[slice(*said["m"])]
        earlier, before = text[start:end], text[: min(start, said["d"][0])]
        first = f"{before}{earlier}" if before else f"{earlier} {month}"
        return [first, before + text[said["d"][0] :]]
    return [text[each.start : each.end] for each in Dates(text).within(0, len(text))]
