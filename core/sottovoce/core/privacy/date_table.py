"""Looks up the dates of one conversation in every form of an answer.

An answer may name "12/10/2054" as "12 October 2054", without its year, or by month and year alone.
Each form finds the same true date, and is written again as the answer wrote it.

An unknown form stays. Its year stays as well, because half a true date would mislead: the 9 in
"year=1971 month=9" is no month of 1979.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Set
from typing import Final, NamedTuple

from sottovoce.core.privacy.surrogate_table import DATE, Place
from sottovoce.core.privacy.surrogates import dates
from sottovoce.core.privacy.surrogates.dates import LONGEST, Day
from sottovoce.core.privacy.surrogates.identifiers import MONTH_NUMBERS

AHEAD: Final = 32
"""Characters after a year that tell whether it is part of a date."""

_MONTH: Final = rf"(?:{'|'.join(sorted(MONTH_NUMBERS))})(?!\w)"
_AFTER_YEAR = re.compile(
    r"[,;]?[ \xa0]?\d\d?[,; ./-]{1,2}\d\d?(?!\d)|,[ ]?\d\d?\)|[年년][ ]?\d|-W\d"
    rf"|[ \xa0.,(*_/-]{{1,4}}(?P<month>{_MONTH})"
    r"|[^\w\s]{0,3}[ ]?[^\w\s]{0,2}(?:month|mon|monat|mois|mes|day)\b[^\w\s]{1,2}[ ]?\d"
    r"|\.[ ](?!(?-i:[A-Z]))[^\W\d_]{3,12}[ ]\d",
    re.IGNORECASE,
)
""""1971, 9, 1", "1971年9", "1971 September", "1971, 'month': 9", "1971. szeptember 1"."""
_BEFORE_YEAR = re.compile(r"(?<!\d)\d\d?[, ]{1,2}\d\d?[, ]{1,2}\Z|\d(?:st|nd|rd|th)[ ,*_]{1,4}\Z")
""""1 9 1971", "the 1st, 1971"."""
_AFTER_MONTH = re.compile(r"[ \xa0.,(*_/-]{1,4}\Z")
_AFTER_WORD = re.compile(r"(?<=\w)(?:[.]?[ \xa0]|[\"']?[:=][ ]?)\Z")
_DAY = re.compile(r"(?:[12]?\d|3[01])(?:st|nd|rd|th)?")
_DAY_IN_SIGNS = re.compile(
    r"\d(?:st|nd|rd|th)?(?:(?:\*{1,3}|</\w{1,2}>)[ \xa0]?\*{0,3}|[ \xa0](?:\*{1,3}|<\w{1,2}>))\Z"
)
""""**1** " before "September 1971", and "<b>1</b> "."""


class Found(NamedTuple):
    """A date in an answer.

    Attributes:
        end: where it ends.
        instead: what takes its place; None where the conversation has no such date.
        full: whether it says a day, so that it may be computed from others.
        compact: whether it is written without signs: "20541012".
    """

    end: int
    instead: str | None
    full: bool
    compact: bool


class DateTable:
    """Looks up dates.

    Args:
        places: of one conversation; only dates among them are read.
    """

    def __init__(self, places: Iterable[Place]) -> None:
        self._written: dict[str, set[str]] = defaultdict(set)
        self._exact: dict[Day, set[Day]] = defaultdict(set)
        self._derived: dict[Day, set[Day]] = defaultdict(set)
        self.years: set[str] = set()
        """The years of released dates."""
        for place in places:
            if place.kind == DATE:
                self._written[place.released].add(place.true)
                pairs = zip(dates.parts(place.released), dates.parts(place.true), strict=False)
                for released, true in pairs:
                    self._add(released, true)

    def __bool__(self) -> bool:
        return bool(self._written)

    def at(
        self, last: str, text: str, start: int, end: int, *, second: bool = False
    ) -> Found | None:
        """Return the date that begins at ``start`` and ends before ``end``; None if there is none.

        ``last`` are the characters before, and ``second`` says that a date and a hyphen may be
        among them. `dates.goes_on` says whether more text could change this.
        """
        near, moved = last + text[start : start + 2 * LONGEST], len(last) - start
        written = dates.match(near, len(last), second=second)
        if written is None or written.end > end + moved:
            return None
        came = near[len(last) : written.end]
        short = written.doubtful and not written.readings[0].day.year
        if short and came not in self._written:
            return None  # rather a fraction
        meanings = self._written.get(came, ())
        instead = next(iter(meanings)) if len(meanings) == 1 else None
        if instead is None:
            for exact in (True, False):
                for reading in written.readings:
                    days = (self._exact if exact else self._derived).get(reading.day, ())
                    if len(days) == 1 and instead is None:
                        (day,) = days
                        instead = written.rewritten(near, day, reading)
        if instead is None and written.doubtful:
            return None
        day = written.readings[0].day
        if instead is not None and not day.day and _DAY_IN_SIGNS.search(last):
            return Found(written.end - moved, None, True, compact=False)
        return Found(written.end - moved, instead, bool(day.day), written.doubtful and day.full)

    def is_part(self, around: tuple[str, str, str], text: str, end: int, common: Set[str]) -> bool:
        """Return whether one of the `years` is part of a date of unknown form.

        Args:
            around: the last characters before it, and the two words before it in small letters.
            text: with at least `AHEAD` characters after it, unless the answer ends.
            end: its end.
            common: words that are of no date.
        """
        last, earlier, before = around
        ahead = text[end : end + AHEAD]
        after = _AFTER_YEAR.match(ahead)
        if after and after["month"]:
            day = self.at("", ahead, after.start("month"), len(ahead))
            return day is None or day.instead is None  # "1971, September 1" comes back
        if after or _BEFORE_YEAR.search(last):
            return True
        if before in MONTH_NUMBERS and _AFTER_MONTH.search(last):
            return True
        word = before.isalpha() and before not in common and len(before) > 2
        return bool(word and _DAY.fullmatch(earlier) and _AFTER_WORD.search(last))

    def _add(self, released: str, true: str) -> None:
        one, other = dates.parse(released), dates.parse(true)
        if one is None or other is None:
            return
        meant = {reading.order: reading.day for reading in other.readings}
        for reading in one.readings:
            sure = reading.order in meant
            came, day = reading.day, meant.get(reading.order, other.readings[0].day)
            (self._exact if sure else self._derived)[came].add(day)
            if came.year:
                self.years.add(f"{came.year:04}")
            if came.full:
                self._derived[came._replace(year=0)].add(day._replace(year=0))
                self._derived[came._replace(day=0)].add(day._replace(day=0))
