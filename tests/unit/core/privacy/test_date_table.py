"""Dates come back in the form of the answer, in every chunking; others are reported as doubtful."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import PrivacyLimits, Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.release import Release
from sottovoce.core.privacy.restoration import Restoration, Restored
from sottovoce.core.privacy.surrogate_table import DATE, Place, observe
from sottovoce.core.privacy.surrogates.dates import Dates
from tests.support.dates import FORMS, written
from tests.support.small_bundle import LexiconFinder

PERSONAL = Setting("strong", policy="personal")
WITH_YEAR = [form for form in FORMS if "%Y" in form and ":" not in form]
days = st.dates(date(1970, 1, 1), date(2058, 12, 31))
keys = st.binary(min_size=32, max_size=32).map(Key)


@pytest.fixture(scope="module")
def privatizer(small_bundle: Bundle) -> Privatizer:
    return Privatizer(small_bundle, LexiconFinder(), floors=PrivacyLimits(least_policy="personal"))


def restored(restoration: Restoration, text: str) -> Restored:
    """Restore a text in pieces of several lengths, each like the whole."""
    whole = restoration.restore(text)
    for length in (1, 3, 7):
        stream = restoration.stream()
        came = [stream.feed(text[at : at + length]) for at in range(0, len(text), length)]
        assert "".join(came) + stream.finish() == whole.text
        assert (stream.restored, stream.doubtful) == (whole.restored, whole.doubtful)
    return whole


def left_as(release: Release) -> list[date]:
    """The full dates of a release, in order."""
    text = release.text
    found = [each.readings[0].day for each in Dates(text).within(0, len(text))]
    return [date(*day) for day in found if day.full]


def released(privatizer: Privatizer, text: str, key: Key) -> tuple[Release, Restoration]:
    release = privatizer.release(text, PERSONAL, key=key, session="s")
    return release, Restoration(observe([release]))


@settings(max_examples=40)
@given(st.lists(st.tuples(days, st.sampled_from(FORMS)), min_size=1, max_size=4), keys)
def test_shifting_and_restoring_is_the_identity(
    privatizer: Privatizer, said: Sequence[tuple[date, str]], key: Key
) -> None:
    text = "".join(f"it was on {written(day, form)} ; " for day, form in said)
    release, restoration = released(privatizer, text, key)
    for day, form in said:
        assert not (form == FORMS[2] and written(day, form) in release.text)
    back = restored(restoration, release.text)
    if len(said) == 1:
        assert back.text == text
        assert not back.doubtful
    elif back.text != text:  # two forms of a day became one text, or two readings collide
        assert [*map(only_digits, back.text.split())] == [*map(only_digits, text.split())] or (
            back.doubtful or len({day for day, _ in said}) < len(said) or ambiguous(release)
        )


def only_digits(text: str) -> str:
    return "".join(filter(str.isdigit, text)).lstrip("0")


def ambiguous(release: Release) -> bool:
    text = release.text
    return any(len(each.readings) > 1 for each in Dates(text).within(0, len(text)))


@settings(max_examples=40)
@given(days, st.sampled_from(["%-d %B %Y", "%Y-%m-%d", "%B %-dth, %Y", "%d.%m.%Y"]), keys)
def test_a_date_comes_back_in_the_form_of_the_answer(
    privatizer: Privatizer, day: date, form: str, key: Key
) -> None:
    text = f"I was born on {written(day, form)} and moved."
    release, restoration = released(privatizer, text, key)
    text = release.text
    (there,) = Dates(text).within(0, len(text))
    left = date(*there.readings[0].day)
    for other in WITH_YEAR:
        if "/" in other or "%d %B" in other or "%d-%b" in other:
            continue  # which number is the month, or whether it had a zero, does not show
        if "%b" in other and left.month == 5:
            continue  # May is short and long
        answer = f"You were born on {written(left, other)}, I see."
        assert (
            restored(restoration, answer).text == f"You were born on {written(day, other)}, I see."
        )
    short = f"In {left:%B %Y}, on {left:%-d %B}, or in {left:%Y}."
    true = f"In {day:%B %Y}, on {day:%-d %B}, or in {day:%Y}."
    assert restored(restoration, short).text == true


def test_a_date_of_slashes_comes_back_with_the_month_as_a_word() -> None:
    restoration = Restoration([Place("12/10/2054", "14/03/1979", DATE)])
    assert restored(restoration, "On 12 October 2054.").text == "On 14 March 1979."
    assert restored(restoration, "On October 12th, 2054").text == "On March 14th, 1979"
    assert restored(restoration, "December 10, 2054!").text == "March 14, 1979!"  # month first


def test_a_compact_date_of_the_answer_comes_back_compact() -> None:
    restoration = Restoration([Place("12 October 2054", "14 March 1979", DATE)])
    came = "a_20541012.csv, 20541012; 20541012T101500Z, not 20541013 or 12054101"
    there = "a_20541012.csv, 19790314; 19790314T101500Z, not 20541013 or 12054101"
    assert restored(restoration, came).text == there


@pytest.mark.parametrize(
    "text",
    ["due 17/4, paid 18/4.", "on Tue 4/3", "vom 3.4. bis 7.4.", "DTSTART:20260312T091500Z"],
)
def test_a_short_date_beside_a_sign_is_shifted_and_comes_back(
    privatizer: Privatizer, text: str
) -> None:
    release, restoration = released(privatizer, text, Key(bytes(32)))
    assert not {*re.findall(r"\d+[./]\d+|\d{8}", text)} & {
        *re.findall(r"\d+[./]\d+|\d{8}", release.text)
    }
    assert restored(restoration, release.text).text == text


def test_a_fraction_of_an_answer_stays() -> None:
    restoration = Restoration([Place("1 February 2054", "14 March 1979", DATE)])
    assert restored(restoration, "use 1/2 cup, 2/1").text == "use 1/2 cup, 2/1"


def test_dates_keep_their_order_and_what_lies_between(privatizer: Privatizer) -> None:
    text = "Hired on 3 March 2004, left on 29 February 2024, back on 2024-03-01."
    days = (date(2004, 3, 3), date(2024, 2, 29), date(2024, 3, 1))
    for number in range(20):
        release, restoration = released(privatizer, text, Key(bytes((number,)) * 32))
        left = left_as(release)
        assert [day - left[0] for day in left] == [day - days[0] for day in days]
        assert left[0] != days[0]
        assert restored(restoration, release.text).text == text


def test_a_conversation_has_one_offset_and_the_next_another(privatizer: Privatizer) -> None:
    key = Key(bytes(32))

    def offset(text: str, session: str) -> int:
        release = privatizer.release(text, PERSONAL, key=key, session=session)
        return (left_as(release)[0] - date(1979, 3, 14)).days

    assert offset("born 14/03/1979", "a") == offset("so on 14 March 1979 at 9:30", "a")
    assert len({offset("born 14/03/1979", f"{number}") for number in range(8)}) > 4


def test_a_date_that_was_not_released_stays_and_is_doubtful(privatizer: Privatizer) -> None:
    release, restoration = released(privatizer, "It starts on 2024-03-01.", Key(bytes(32)))
    (left,) = left_as(release)
    after = left.replace(day=left.day % 28 + 1)
    back = restored(restoration, f"The next day is {after:%-d %B %Y}, not {left:%-d %B %Y}.")
    assert back.text == f"The next day is {after:%-d %B %Y}, not 1 March 2024."
    assert [*back.doubtful] == [f"{after:%-d %B %Y}"]
    assert not Restoration([]).restore("It is 3 May 2024.").doubtful


def test_times_weekdays_and_single_months_and_years_pass(privatizer: Privatizer) -> None:
    text = "Monday, 9:30 or 10:15:30, in March or in 1999, for 45 minutes"
    assert released(privatizer, text, Key(bytes(32)))[0].text == text
    stamp = "2024-02-29 10:15 and Tue, 14 Mar 1979 10:11:12 +0100"
    left = released(privatizer, stamp, Key(bytes(32)))[0].text
    assert " 10:15 and Tue, " in left
    assert left.endswith(" 10:11:12 +0100")


def test_a_month_of_a_year_is_shifted_where_a_full_date_is(privatizer: Privatizer) -> None:
    key = Key(bytes(32))
    assert released(privatizer, "The wall fell in November 1989", key)[0].text[-4:] == "1989"
    text = "Born on 14 March 1979, at school from September 1985"
    release, restoration = released(privatizer, text, key)
    assert "September 1985" not in release.text
    assert restored(restoration, release.text).text == text


MONTHS = "In 03/1979 it was cold, in 1979-03 too, March '79, en mars 1979, marzo de 1979"


def test_months_of_a_known_date_move_by_the_months_between(privatizer: Privatizer) -> None:
    key = Key(bytes(32))
    assert released(privatizer, MONTHS, key)[0].text == MONTHS
    other = "RFC-2012-07, $12/2020 and #3/2010"
    assert released(privatizer, f"Born on 14 March 1979. {other}", key)[0].text.endswith(other)
    release, restoration = released(privatizer, f"Born on 14 March 1979. {MONTHS}", key)
    text = release.text
    _, *months = [each.readings[0].day for each in Dates(text).within(0, len(text))]
    assert len(months) == 5
    assert len({day[:2] for day in months}) == 1
    assert not re.search("1979|'79|03/|-03", text)
    assert restored(restoration, text).text == release.document


def test_months_of_a_date_of_an_earlier_turn_are_shifted(privatizer: Privatizer) -> None:
    key, owners = Key(bytes(32)), dict[str, tuple[str, str]]()
    for text in ("Born on 14 March 1979.", MONTHS, "So in March 1979?"):
        left = privatizer.release(text, PERSONAL, key=key, session="s", owners=owners).text
        assert not re.search("1979|'79|03/|-03", left)
    only = privatizer.release("In 1999.", PERSONAL, key=key, session="s", owners=owners).text
    assert only == "In 1999."
    old = privatizer.release("In July 1776?", PERSONAL, key=key, session="s", owners=owners).text
    assert old == "In July 1776?"


def test_the_last_month_of_a_card_shows_no_offset(privatizer: Privatizer) -> None:
    text = "Born on 14 March 1979, card 4000 0000 0000 0002 exp 03/2027"
    lefts = {released(privatizer, text, Key(bytes((n,)) * 32))[0].text[-7:] for n in range(30)}
    assert "03/2027" not in lefts
    assert not all(re.match(r"(0\d|1[0-2])/20[1-3]", left) for left in lefts)


RANGES = (
    "The trip was on 3-5 March 2021",
    "away from 4 to 29 May 2021.",
    "leave: May 4-29, 2021 was wet",
    "from the 2nd and 30th of June 2019 on",
    "vom 4. bis 29. Mai 2021",
    "du 4 au 29 mai 2021",
    "4 - 29 may 2021, both",
    "November 28-December 23, 2017 with kids",
    "leave: 28 November-23 December 2017.",
    "28 Nov 2017-3 Jan 2018 there",
    "Nov 28, 2017-Jan 3, 2018",
    "28/11/2017-03/01/2018 in hospital",
    "28.11.2017-03.01.2018",
    "2017-11-28/2018-01-03",
    "3-Jan-2020-4-Feb-2020",
    "it was Dec 28-Jan 3",
    "it was 28 Dec-3 Jan",
    "born 14 March 1979-died 2 April 2001",
    "on 14 March-20 people came",
    "Rose-14 March 1979",
)


@pytest.mark.parametrize("text", RANGES)
def test_ranges_leave_as_ranges_and_come_back(privatizer: Privatizer, text: str) -> None:
    year = re.compile(r"(19|20)\d\d")
    for number in range(30):
        release, restoration = released(privatizer, text, Key(bytes((number,)) * 32))
        assert restored(restoration, release.text).text == text
        for word in release.each_word():
            if any(map(str.isdigit, said := text[word.start : word.end])):
                left = release.text[word.released_start : word.released_end]
                assert left != said or year.fullmatch(said) or len(said) < 3
        assert len(year.findall(release.text)) == len(year.findall(text))


def test_both_dates_of_a_range_move_by_one_offset(privatizer: Privatizer) -> None:
    text = "Nov 28, 2017-Jan 3, 2018 and 28/11/2017-03/01/2018"
    release, restoration = released(privatizer, text, Key(bytes(32)))
    one, other, *again = left_as(release)
    assert (other - one).days == 36
    assert again == [one, other]
    answer = f"it began on {one:%d %B %Y} and ended on {other:%Y-%m-%d}"
    assert (
        restored(restoration, answer).text == "it began on 28 November 2017 and ended on 2018-01-03"
    )


@pytest.mark.parametrize(
    "text",
    [
        "id,name,born,amount\n1,Rose,1979-03-14,500\n2,Tom,14/03/1979,42\n",
        "(1,'Long','Rose','1948-02-29'), (2,'Fish','Tom','2001-12-31')",
        '{"born": "1979-03-14", "id": 48213}',
        "| Rose | 14/03/1979 | 5 |",
        "[2024-03-14 10:11:12,345] INFO 14/Mar/2024:10:11:12",
        "datetime(1979, 3, 14), new Date(1979, 2, 14), 1979年3月14日, 生于1979-03-14出生",
        "am 5. Mai 1990, le 5 mai 1990, el 5 de mayo de 1990",
        "Date: Mon Mar 4 10:22:11 2024 +0100, Tue Mar  5 10:22:11 2024",
    ],
)
def test_dates_in_tables_code_and_other_languages_are_shifted(
    privatizer: Privatizer, text: str
) -> None:
    release, restoration = released(privatizer, text, Key(bytes(32)))
    said, left = ([*Dates(each).within(0, len(each))] for each in (text, release.text))
    apart = [
        date(*one.readings[0].day) - date(*two.readings[0].day)
        for one, two in zip(said, left, strict=True)
    ]
    assert len({*apart}) == 1
    assert apart[0]
    assert restored(restoration, release.text).text == text


def test_an_address_with_a_date_is_drawn_as_an_address(privatizer: Privatizer) -> None:
    left = released(privatizer, "https://mail.acme.org/2024/03/14/a", Key(bytes(32)))[0].text
    assert "acme" not in left
    assert ".example." in left.replace("//", ".") or "example." in left


def test_no_date_comes_back_in_an_address(privatizer: Privatizer) -> None:
    release, restoration = released(privatizer, "born 1979-03-14", Key(bytes(32)))
    (left,) = left_as(release)
    answer = f"see https://x.example/{left:%Y/%m/%d}/a and [a](https://x.example/?d={left})"
    assert restored(restoration, answer).text == answer


def test_dates_with_two_meanings_stay() -> None:
    places = [Place("2 June 1984", "14 March 1979", DATE), Place("1984-06-02", "1980-01-01", DATE)]
    back = restored(Restoration(places), "It was 02.06.1984 then")
    assert back.text == "It was 02.06.1984 then"
    assert [*back.doubtful] == ["02.06.1984"]


BORN = Restoration([Place("01/09/1971", "14/03/1979", kind) for kind in (DATE, "IDENTIFIER")])


@pytest.mark.parametrize(
    ("came", "there"),
    [
        ("datetime(1971, 9, 1)", "datetime(1979, 3, 14)"),
        ("LocalDate.of(1971, 9, 1)", "LocalDate.of(1979, 3, 14)"),
        ("new Date(1971, 8, 1, 10)", "new Date(1979, 2, 14, 10)"),
        ("SELECT DATE(1971,9,1)", "SELECT DATE(1979,3,14)"),
        ("生于1971年9月1日。", "生于1979年3月14日。"),
        ("1971년 9월 1일에", "1979년 3월 14일에"),
        ("in 09/1971 or 9/1971", "in 03/1979 or 3/1979"),
        ("in 1971-09.", "in 1979-03."),
        ("Sept '71, mid-September 1971", "Mar '79, mid-March 1979"),
        ("en septembre 1971, septiembre de 1971", "en mars 1979, marzo de 1979"),
        ("1971, September 1; year 1971 (Sept 1)", "1979, March 14; year 1979 (Mar 14)"),
        ("In 1971, 12 came; **1971**; 1971年", "In 1979, 12 came; **1979**; 1979年"),
    ],
)
def test_a_date_comes_back_in_more_forms(came: str, there: str) -> None:
    back = restored(BORN, came)
    assert back.text == there
    assert not back.doubtful


HALF_DATES = (
    "new Date(1971, 8)",
    "f(1971, 8, 1)",
    "7 октября 1971",
    "1971. szeptember 1.",
    "**1** September 1971",
    "1 **September 1971**",
    "<b>1</b> September 1971",
    "1971 September",
    "1971 09 01",
    "1971-W36",
    "year=1971 month=9",
    '{"year": 1971, "month": 9, "day": 1}',
    '{"day": 1, "month": 9, "year": 1971}',
    "the 1st, 1971",
)


@pytest.mark.parametrize("came", HALF_DATES)
def test_half_a_date_never_comes_back_unnoticed(came: str) -> None:
    back = restored(BORN, f"It is {came} here.")
    assert back.text == f"It is {came} here."
    assert back.doubtful


TEXT = (
    "2/Jun/1984:10:11:12 On 2 June 1984, 2. Juni 1984 :10 June 2nd, 1984-06-02T10:00, 2-4 June"
    " 1984 of 14 to May 1984 1,984 "
)
MORE = (
    "new Date(1984, 5, 2)",
    "time(1984, 6, 2)",
    "1984年6月2日",
    "06/1984",
    "1984-06",
    "juin 1984",
    "June '84",
    "**2** June 1984",
)
pieces = st.one_of(
    st.sampled_from(MORE),
    st.sampled_from(TEXT.replace(" ", " | ").split("|")),
    st.sampled_from([" ", "-", ".", "x"]),
)


@settings(max_examples=150)
@given(st.lists(pieces, max_size=25).map("".join), st.data())
def test_chunking_never_changes_the_result(text: str, data: st.DataObject) -> None:
    places = [
        Place("2 June 1984", "14 March 1979", DATE),
        Place("1984", "1979", "IDENTIFIER", "june", "2", ""),
        Place("June 4", "March 16", DATE),
        Place("02/06/84", "14/03/79", DATE),
        Place("02/06/84", "14/03/79", "IDENTIFIER", "", "", ""),
    ]
    restoration = Restoration(places)
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    whole, stream, start, out = restored(restoration, text), restoration.stream(), 0, ""
    for cut in (*cuts, len(text)):
        out += stream.feed(text[start:cut])
        start = cut
    assert out + stream.finish() == whole.text


def test_a_date_that_came_back_is_told_with_what_stood_there(privatizer: Privatizer) -> None:
    key = Key(bytes(32))
    release, back = released(privatizer, "Born 14 March 1979.", key)
    (day,) = left_as(release)
    came = f"{day:%-d %B %Y}"
    assert restored(back, f"On {came}.").restored == {(came, "14 March 1979"): 1}
    kept = Place("14 March 1979", "14 March 1979", DATE)
    assert not Restoration([kept]).restore("On 14 March 1979.").restored


@pytest.mark.parametrize("said", ["10/3/2000", "3/10/2000", "1/12/1999", "9-8-2011", "11.4.1987"])
def test_a_date_whose_surrogate_has_other_lengths_comes_back(
    privatizer: Privatizer, said: str
) -> None:
    text = f"it was on {said} ; "
    for number in range(60):
        release, back = released(privatizer, text, Key(bytes((number,)) * 32))
        assert restored(back, release.text).text == text
