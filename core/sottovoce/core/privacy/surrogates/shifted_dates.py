"""Shifts all dates of a conversation by one secret offset.

A shift keeps the order of dates and the days between them, so that a model can reason about them.
The offset is a whole number of weeks, so weekdays stay true as well.

A date without a year moves on a circle of 366 days, and a month of a year by whole months. So
different dates stay different.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import takewhile
from typing import Final

from sottovoce.core.privacy.identifier_parts import is_card_label
from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.surrogates import below, fill, layout
from sottovoce.core.privacy.surrogates.dates import COMPOUND, LEAP, Dates, Day, Written
from sottovoce.core.privacy.surrogates.identifiers import CODE, shape
from sottovoce.core.text.words import Word

WEEKS: Final = (5, 521)
"""The least and the greatest offset, in either direction."""

_DAYS_OF_MONTH: Final = 365.2425 / 12
_CIRCLE: Final = 366
_FILLED = re.compile(r"(?<![^,;|])(?!(?:\d{1,2}|-?\d{1,5}\.\d\d?)(?:[,;|]|\Z))[^,;|]+")
"""A value beside a date, which small numbers and amounts are not."""


class Shift:
    """Moves dates by one offset.

    Args:
        random: the offset is drawn from it, once.
    """

    def __init__(self, random: Random) -> None:
        least, most = WEEKS
        number = below(2 * (most - least + 1), 1, random)[0]
        weeks = number // 2 + least
        self._by = timedelta(weeks=weeks if number % 2 else -weeks)

    def moved(self, day: Day) -> Day | None:
        """Return the date that takes the place of a date; None where the calendar ends."""
        try:
            return self._month(day) if not day.day else self._moved(day)
        except (ValueError, OverflowError):
            return None

    def _moved(self, day: Day) -> Day:
        if day.year:
            later = date(*day) + self._by
            return Day(later.year, later.month, later.day)
        begun = date(LEAP + 1, 1, 1) + self._by
        turn = _of_year(begun.month, begun.day) + _of_year(day.month, day.day)
        later = date(LEAP, 1, 1) + timedelta(days=turn % _CIRCLE)
        return Day(0, later.month, later.day)

    def _month(self, day: Day) -> Day:
        months = 12 * day.year + day.month - 1 + round(self._by.days / _DAYS_OF_MONTH)
        later = date(months // 12, months % 12 + 1, 1)
        return Day(later.year, later.month, 0)


def _of_year(month: int, day: int) -> int:
    """Return the number of a day in a leap year, from 0."""
    return (date(LEAP, month, day) - date(LEAP, 1, 1)).days


class ShiftedDates:
    """Replaces the dates of one document by shifted ones.

    Args:
        stream: the source of randomness of the conversation. Equal ones give the same offset.
    """

    def __init__(self, text: str, stream: Callable[..., Random]) -> None:
        self._text = text
        self._stream = stream
        self.full = False
        """Whether a date with day, month and year was replaced."""
        self._dates: Dates | None = None
        self._shift: Shift | None = None

    def replace(self, words: Sequence[Word], drawn: Sequence[int]) -> dict[int, str]:
        """Return the replacements of the words that belong to a date, by place.

        A word may hold dates among other values, as "1,1979-03-14,42" does. The other values are
        then drawn.

        Args:
            words: consecutive words of the document.
            drawn: places of the words that may not pass, ascending.
        """
        if not drawn:
            return {}
        self._dates = self._dates or Dates(self._text)
        dates = deque(self._dates.within(words[drawn[0]].start, words[drawn[-1]].end))
        found: dict[int, str] = {}
        for place in drawn:
            text, start, end, _, _ = words[place]
            while dates and dates[0].end <= start:
                dates.popleft()
            met = list(takewhile(lambda date: date.start < end, dates))  # noqa: B023
            if not met:
                continue
            within = len(met) == 1 and met[0].start <= start and end <= met[0].end
            if not (within or shape(text).sort == CODE or COMPOUND.fullmatch(text)):
                continue
            if shifted := self._values(met, start, end):
                found[place] = shifted
        return found

    def _shifted(self, date: Written, start: int, end: int) -> str:
        """Return a part of a date as it leaves; "" where the calendar ends, as `_values` does."""
        self._shift = self._shift or Shift(self._stream("dates"))
        self.full |= date.readings[0].day.full
        day = self._shift.moved(date.readings[0].day)
        return date.part(self._text, start, end, day) if day else ""

    def _values(self, dates: Sequence[Written], start: int, end: int) -> str:
        out = []
        for each in dates:
            first, last = max(start, each.start), min(end, each.end)
            if not (shifted := self._shifted(each, first, last)):
                return ""
            out += [self._other(start, first), shifted]
            start = last
        return "".join((*out, self._other(start, end)))

    def _other(self, start: int, end: int) -> str:
        text = self._text[start:end]
        if is_card_label(text):
            return text
        stream = partial(self._stream, "beside dates")
        return _FILLED.sub(lambda part: fill(layout(part[0]), stream(part[0])), text)
