"""Dates in all the forms that people and programs write."""

from __future__ import annotations

from datetime import date
from typing import Final

FORMS: Final = (
    *("%d/%m/%Y", "%m/%d/%Y", "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%y", "%-d.%-m.%y", "%-d/%-m/%Y"),
    *("%-d %B %Y", "%d %B %Y", "%B %-d, %Y", "%-d %b %Y", "%b %-d, %Y", "%d-%b-%Y", "%d-%b-%y"),
    *("%-dth of %B %Y", "%B %-dth, %Y", "%-d %b", "%b %-d", "%-d %B", "%d/%b/%Y:10:11:12"),
    *("%Y-%m-%dT10:15:30Z", "%Y-%m-%dT10:15:30.123+02:00", "%a, %d %b %Y 10:11:12 +0100"),
    "%a %b %-d 10:11:12 %Y",
)


def written(day: date, form: str) -> str:
    """Return a date in a form of `date.strftime`, with the right ending of an ordinal number."""
    ending = "th" if 10 < day.day < 14 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return day.strftime(form.replace("%-dth", f"%-d{ending}"))
