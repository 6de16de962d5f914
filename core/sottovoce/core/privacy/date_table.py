"""Looks up the dates of one conversation in every form of an answer.

An answer may name "12/10/2054" as "12 October 2054", without its year, or by month and year alone.
Each form finds the same true date, and is written again as the answer wrote it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from sottovoce.core.privacy.surrogate_table import DATE, Place
from sottovoce.core.privacy.surrogates import dates
from sottovoce.core.privacy.surrogates.dates import Day


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
        for place in places:
            if place.kind == DATE:
                self._written[place.released].add(place.true)
                pairs = zip(dates.parts(place.released), dates.parts(place.true), strict=False)
                for released, true in pairs:
                    self._add(released, true)

    def __bool__(self) -> bool:
        return bool(self._written)

    def at(self, text: str, start: int, end: int, *, second: bool = False) -> Found | None:
        """Return the date that begins at ``start`` and ends before ``end``; None if there is none.

        ``second`` says that a date and a hyphen may precede it.
        `dates.goes_on` says whether more text could change this.
        """
        written = dates.match(text, start, second=second)
        if written is None or written.end > end:
            return None
        came = text[start : written.end]
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
                        instead = written.rewritten(text, day, reading)
        if instead is None and written.doubtful:
            return None
        day = written.readings[0].day
        return Found(written.end, instead, bool(day.day), written.doubtful and day.full)

    def _add(self, released: str, true: str) -> None:
        one, other = dates.parse(released), dates.parse(true)
        if one is None or other is None:
            return
        meant = {reading.order: reading.day for reading in other.readings}
        for reading in one.readings:
            sure = reading.order in meant
            came, day = reading.day, meant.get(reading.order, other.readings[0].day)
            (self._exact if sure else self._derived)[came].add(day)
            if came.full:
                self._derived[came._replace(year=0)].add(day._replace(year=0))
                self._derived[came._replace(day=0)].add(day._replace(day=0))
