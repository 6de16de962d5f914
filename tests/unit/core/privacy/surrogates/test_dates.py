"""Dates are found in every form, keep order and intervals when shifted, and stay in their form."""

from __future__ import annotations

import time
from datetime import date, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.surrogates import dates
from sottovoce.core.privacy.surrogates.dates import LONGEST, Dates, Day, Written
from sottovoce.core.privacy.surrogates.shifted_dates import Shift
from tests.support.dates import FORMS, written

days = st.dates(date(1970, 1, 1), date(2068, 12, 31))
shifts = st.binary(min_size=32, max_size=32).map(lambda secret: Shift(Key(secret).stream()))


def found(text: str) -> list[Written]:
    return [*Dates(text).within(0, len(text))]


def only(text: str) -> Day:
    (each,) = found(text)
    return each.readings[0].day


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("born 14/03/1979.", (1979, 3, 14)),
        ("born 03/14/1979", (1979, 3, 14)),
        ("born 03/04/1979", (1979, 4, 3)),
        ("on 1979-03-14,", (1979, 3, 14)),
        ("on 14.3.79.", (1979, 3, 14)),
        ("14 March 1979", (1979, 3, 14)),
        ("March 14th, 1979", (1979, 3, 14)),
        ("the 14th of March, 1979", (1979, 3, 14)),
        ("14-Mar-79", (1979, 3, 14)),
        ("14Mar2020", (2020, 3, 14)),
        ("14 Mar", (0, 3, 14)),
        ("Mar  4 10:11:12 host", (0, 3, 4)),
        ("Tue, 14 Mar 1979 10:11:12 +0100", (1979, 3, 14)),
        ("[14/Mar/1979:10:11:12 +0100]", (1979, 3, 14)),
        ("at 1979-03-14T10:15:30.123+02:00", (1979, 3, 14)),
        ("Sept. 9, 2001", (2001, 9, 9)),
        ("in March 1979", (1979, 3, 0)),
        ("3-5 March 2021", (2021, 3, 5)),
        ("29 February 2024", (2024, 2, 29)),
        ("am 5. März 1990", (1990, 3, 5)),
        ("le 5 août 1990", (1990, 8, 5)),
        ("el 5 de mayo de 1990", (1990, 5, 5)),
        ("1,1979-03-14,500", (1979, 3, 14)),
        ("23MAR 0655", (0, 3, 23)),
        ("el 3 de enero y", (0, 1, 3)),
        ("el 5 de mayo y", (0, 5, 5)),
        ("am 4. Juni absagen", (0, 6, 4)),
        ("14 października 2023", (2023, 10, 14)),
    ],
)
def test_every_form_is_read(text: str, day: tuple[int, int, int]) -> None:
    assert only(text) == day


@pytest.mark.parametrize(
    "text",
    [
        "29/02/2023",
        "31 April",
        "2 mars missions",
        "10.1.2.3",
        "version 1.2.3",
        "they may 3 times march 20 miles",
        "is march 2 miles a lot if 40 may come",
        "may 19 people come and the 3 may be wrong",
        "you may 3, i think",
        "table 5 Mai",
        "mayo 3",
        "17 * 23",
        "9:30",
        "1979",
        "in March",
        "0/0/2000",
        "12345-03-14",
        "1979-03-145",
    ],
)
def test_what_is_no_date_is_not_found(text: str) -> None:
    assert not found(text)


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("since 4/3", ["4/3"]),
        ("Tue, 4/3 and Wed 5/3", ["4/3", "5/3"]),
        ("due 17/4, paid 18/4.", ["17/4", "18/4"]),
        ("at 4/3, 9:30 am", ["4/3"]),
        ("by 17/4", ["17/4"]),
        ("vom 3.4. bis 7.4.", ["3.4.", "7.4."]),
        ("DTSTART:20260312T091500Z", ["20260312T091500Z"]),
        ("since 20260312", ["20260312"]),
        ("since 20260312, and 20260312; then", ["20260312"]),
        ("married on may 19 and", ["may 19"]),
        ("from march 2 to march 9?", ["march 2", "march 9"]),
        ("born march 2 or due may 3.", ["march 2", "may 3"]),
        ("is may 19 a holiday, may 1st too", ["may 19", "may 1st"]),
        ("on 19 may, until may 3", ["19 may", "may 3"]),
        ("le 5 mars, dnia 5 maja, sjuk den 4 mars", ["5 mars", "5 maja", "4 mars"]),
        ("7,20240315,450.00", ["20240315"]),
        ("du 4 au 11 août, vom 4. bis 11. Mai", ["4 au 11 août", "4. bis 11. Mai"]),
        ("a total of 20240315, and", []),
        ("on 3/4 of it", []),
        ("until 3/4 done", []),
        ("3/4 + 4/3 = 2", []),
        ("multiply by 4/3", []),
        ("on 3/4 inch", []),
        ("open 24/7, on 24/7 and since 9/11", []),
        ("Version 3.4. and 20260312", []),
        ("since 31/31 or 45.3.", []),
    ],
)
def test_a_short_date_needs_a_sign(text: str, dates: list[str]) -> None:
    assert [text[each.start : each.end] for each in found(text)] == dates


def test_other_dates_in_a_text_say_whether_the_month_comes_first() -> None:
    assert [each.readings[0].day.month for each in found("03/04/1979 and 03/14/1979")] == [3, 3]
    assert [each.readings[0].day.month for each in found("03/04/1979 and 14/03/1979")] == [4, 3]


@given(days, days, shifts)
def test_order_intervals_and_weekdays_stay(one: date, other: date, shift: Shift) -> None:
    moved = [shift.moved(Day(*day.timetuple()[:3])) for day in (one, other)]
    there = [date(*day) for day in moved if day]
    assert there[1] - there[0] == other - one
    assert there[0].weekday() == one.weekday()
    assert timedelta(days=30) < abs(there[0] - one) < timedelta(days=3_653)


@given(shifts)
def test_no_two_dates_without_a_year_and_no_two_months_become_one(shift: Shift) -> None:
    year = [date(2000, 1, 1) + timedelta(days=number) for number in range(366)]
    assert len({shift.moved(Day(0, day.month, day.day)) for day in year}) == 366
    months = [(2000 + number // 12, number % 12 + 1, 0) for number in range(60)]
    assert len({shift.moved(Day(*month)) for month in months}) == 60


@given(days, days, st.sampled_from(FORMS))
def test_a_date_is_written_again_in_its_form(one: date, other: date, form: str) -> None:
    text = f"so {written(one, form)} then"
    (there,) = found(text)
    day = there.readings[0].day
    wanted = Day(other.year if day.year else 0, other.month, other.day if day.day else 0)
    again = there.rewritten(text, wanted)
    (back,) = found(f"so {again} then")
    year = wanted.year % 100 if "%y" in form else wanted.year
    assert (back.readings[0].day.year % 100 if "%y" in form else back.readings[0].day.year) == year
    if there.readings[0].order != "mdy" and back.readings[0].order != "mdy":
        assert back.readings[0].day[1:] == wanted[1:]


def test_the_other_month_of_a_range_is_written() -> None:
    for text, wanted in (
        ("3-5 March 2021", "31 May-2 June 2021"),
        ("March 3rd to 5th, 2021", "May 31st to June 2nd, 2021"),
    ):
        (there,) = found(text)
        assert there.rewritten(text, Day(2021, 6, 2)) == wanted


def test_where_the_calendar_ends_no_date_is_drawn() -> None:
    shift = Shift(Key(bytes(32)).stream())
    assert None in (shift.moved(Day(9999, 12, 31)), shift.moved(Day(1, 1, 1)))


PIECES = ("14", " ", "March", "3", "-", "th", ",", "2021", "T", ":", "x", "/Mar/1979", ":10:11:12")


@given(st.lists(st.sampled_from((*PIECES, "5. Mai 1990", "2021-03-14", " de ", "3 to 5 "))))
@example(["14", "th", "March"])
def test_what_may_go_on_is_told(pieces: list[str]) -> None:
    text = "".join(pieces)
    for start in range(len(text)):
        whole = dates.match(text, start)
        for end in range(start, len(text)):
            if not dates.goes_on(text[:end], start):
                assert dates.match(text[:end], start) == whole
                break
        assert whole is None or whole.end - start < LONGEST


@pytest.mark.parametrize("piece", ["1 ", "Mar ", "1/1/", "3-5 ", "14 March ", "1979-03-14 ", "may"])
def test_the_time_grows_with_the_text_alone(piece: str) -> None:
    begun = time.process_time()
    Dates(piece * (200_000 // len(piece)))
    assert time.process_time() - begun < 10
