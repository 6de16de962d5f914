"""A surrogate of an identifier is valid in its format and belongs to no person."""

import calendar
import ipaddress
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import identifiers

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""

SEEDS = st.integers(0, 2**32)
HOST = r"[a-z]+\.example\.(com|net|org)"


def drawn(text: str, seed: int) -> str:
    return identifiers.draw(identifiers.shape(text), np.random.default_rng(seed))


def luhn(number: str) -> int:
    """The checksum of a card number; 0 for a valid one."""
    digits = [int(digit) for digit in re.sub(r"\D", "", number)][::-1]
    return (
        sum(d if place % 2 == 0 else sum(divmod(2 * d, 10)) for place, d in enumerate(digits)) % 10
    )


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("https://secret.de/who?x=1", rf"https://{HOST}/[a-z]{{8}}"),
        ("https://secret.de", rf"https://{HOST}"),
        ("www.secret.de/#x", rf"www\.{HOST}/[a-z]{{8}}"),
        ("secret://x", rf"https://{HOST}"),
        ("jo@secret.de", r"[a-z]+\.[a-z]+@example\.(com|net|org)"),
        ("mailto:jo@secret.de", r"mailto:[a-z]+\.[a-z]+@example\.(com|net|org)"),
        ("@secret", "@[a-z]+_[a-z]+"),
        ("secret.de", HOST),
        ("secret.de/x", rf"{HOST}/[a-z]{{8}}"),
        ("secret.pdf", rf"[a-z]+\.({'|'.join(identifiers.EXTENSIONS)})"),
        ("secret.PDF", r"[a-z]+\.[A-Z]+"),
        ("5€", r"\d€"),
        ("£1,200.50", r"£[1-9],\d{3}\.\d\d"),
        ("42", r"[1-9]\d"),
        ("0.5%", r"\d\.\d%"),
        ("20°", r"[1-9]\d°"),
        ("hunter2", r"[a-z]{6}\d"),
        ("AB-12/c", r"[A-Z]{2}-\d\d/[a-z]"),
        ("d41d8cd98f00b204", "[0-9a-f]{16}"),
        ("D41D8CD98F00B204", "[0-9A-F]{16}"),
        ("aa-bb-0c-dd-ee-ff", "00-00-5e-00-53-[0-9a-f]{2}"),
        ("1990s", r"(19|20)\d0s"),
        ("90s", r"\d0s"),
    ],
)
def test_looks_like_one(text: str, pattern: str) -> None:
    for seed in range(100):
        assert re.fullmatch(pattern, drawn(text, seed))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("5550142233", r"[2-5]\d\d55501\d\d"),
        ("(212)867-5309", r"\([2-5]\d\d\)555-01\d\d"),
        ("212.867.5309", r"[2-5]\d\d\.555\.01\d\d"),
        ("867-5309", r"555-01\d\d"),
        ("+12128675309", r"\+1[2-5]\d\d55501\d\d"),
        ("+1 212 867 5309", r"\+1 [2-5]\d\d 555 01\d\d"),
        ("+442079460999", r"\+44(1\d\d4960|2079460|1632960|7700900)\d{3}"),
        ("02079 460999", r"0(1\d\d4|2079|1632|7700) ?\d{6}"),
        ("02079460999", r"1[2-5]\d\d55501\d\d"),
        ("07911 123456", r"0(1\d\d4|2079|1632|7700) ?\d{6}"),
        ("+4915112345678", r"\+0\d{12}"),
        ("+44", r"\+0\d"),
        ("123-45-6789", r"000-\d\d-\d{4}"),
        ("9123-4567", r"000\d-\d{4}"),
        ("91234567", r"100\d{5}"),
    ],
)
def test_a_telephone_number_is_nobodys(text: str, pattern: str) -> None:
    for seed in range(200):
        assert re.fullmatch(pattern, drawn(text, seed))


@given(SEEDS, st.integers(2, 40), st.sampled_from("05"))
def test_digits_alone_never_begin_with_0(seed: int, length: int, first: str) -> None:
    assert drawn(first + "1" * (length - 1), seed)[0] != "0"


@given(
    SEEDS,
    st.sampled_from(["4111 1111 1111 1111", "371449635398431", "6011000990139424000", "1" * 13]),
)
def test_a_card_fails_its_check(seed: int, text: str) -> None:
    found = drawn(text, seed)
    assert len(found) == len(text)
    assert luhn(found) != 0


def test_cards_fail_in_every_way_alike() -> None:
    wrong = [luhn(drawn("4111111111111111", seed)) for seed in range(5_000)]
    assert chisquare(np.bincount(wrong, minlength=10)[1:]).pvalue > ALPHA


def test_the_check_above_knows_a_valid_card() -> None:
    assert luhn("4111 1111 1111 1111") == luhn("371449635398431") == 0


@given(SEEDS)
def test_a_bank_account_fails_its_check(seed: int) -> None:
    found = drawn("GB29NWBK60161331926819", seed)
    assert re.fullmatch(r"[A-Z]{2}\d\d[A-Z]{4}\d{14}", found)
    assert found[2:4] in ("00", "01", "99")


@given(SEEDS, st.sampled_from(["10.0.0.1", "8.8.8.8/24", "8.8.8.8:53", "8.8.8.8/8:53"]))
def test_an_address_is_for_documentation(seed: int, text: str) -> None:
    address = re.fullmatch(r"([\d.]+)(?:/(\d+))?(?::(\d+))?", drawn(text, seed))
    assert address is not None
    networks = map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))
    assert any(ipaddress.ip_address(address[1]) in network for network in networks)
    assert (address[2] is not None) == ("/" in text)
    assert (address[3] is not None) == (":" in text)
    assert 8 <= int(address[2] or 8) <= 32
    assert 1024 <= int(address[3] or 1024) < 2**16


@given(SEEDS, st.sampled_from(["fe80::1", "fe80::1/64"]))
def test_an_address_of_version_6_is_too(seed: int, text: str) -> None:
    found = ipaddress.ip_interface(drawn(text, seed))
    assert found in ipaddress.ip_network("2001:db8::/32")
    assert found.network.prefixlen == (64 if "/" in text else 128)


DATES = ["2020-01-02", "12/05/2020", "1.2.2020", "1/12/20", "12-5-20", "2020/1/2"]


@given(SEEDS, st.sampled_from(DATES))
def test_a_date_is_valid_whichever_comes_first(seed: int, text: str) -> None:
    found = drawn(text, seed)
    assert re.sub(r"\d", "9", found) == re.sub(r"\d", "9", text)
    *_, small, other = sorted(re.split(r"[-/.]", found), key=len, reverse=True)
    parts = re.split(r"[-/.]", found)
    days = parts[1:] if len(parts[0]) == 4 else parts[:2]
    assert all(1 <= int(day) <= 12 for day in days)
    assert small
    assert other
    if len(max(parts, key=len)) == 4:
        assert 1900 <= int(max(parts, key=len)) <= 2099


def test_days_months_and_years_are_uniform() -> None:
    found = [drawn("2020-01-02", seed).split("-") for seed in range(20_000)]
    for place, first, choices in ((0, 1900, 200), (1, 1, 12), (2, 1, 12)):
        counts = np.bincount([int(date[place]) - first for date in found], minlength=choices)
        assert len(counts) == choices
        assert chisquare(counts).pvalue > ALPHA


@given(
    SEEDS, st.sampled_from(["12-Mar-2020", "3may", "4June2021", "JAN-12", "31DECEMBER99", "Feb.99"])
)
def test_a_named_date_is_valid(seed: int, text: str) -> None:
    parts = re.fullmatch(r"(\d*)([-/.]?)([A-Za-z]+)([-/.]?)(\d*)", drawn(text, seed))
    typed = re.fullmatch(r"(\d*)([-/.]?)([A-Za-z]+)([-/.]?)(\d*)", text)
    assert parts is not None
    assert typed is not None
    assert [len(parts[n]) for n in (1, 5)] == [len(typed[n]) for n in (1, 5)]
    assert (parts[2], parts[4]) == (typed[2], typed[4])
    short = len(typed[3]) == 3
    names = identifiers.SHORT_MONTHS if short else identifiers.MONTHS
    assert parts[3].lower() in names
    assert parts[3].isupper() == typed[3].isupper()
    month = names.index(parts[3].lower()) + 1
    assert 1 <= int(parts[1] or 1) <= calendar.monthrange(2001, month)[1]


TIMES = ["12:30", "1:05", "23:59:59", "12:30:01.25", "5pm", "12PM", "10:30am", "9:05p.m."]


@given(SEEDS, st.sampled_from(TIMES))
def test_a_time_is_valid(seed: int, text: str) -> None:
    found = drawn(text, seed)
    blank = str.maketrans("0123456789apAP", "9999999999xxXX")
    assert found.translate(blank) == text.translate(blank)
    hour, *sixty = (int(part) for part in re.findall(r"\d+", found.split(".")[0]))
    assert all(part < 60 for part in sixty)
    assert 1 <= hour <= 12 if "m" in text.lower() else 0 <= hour < 24


def test_hours_minutes_and_halves_of_the_day_are_uniform() -> None:
    found = [drawn("12:30", seed).split(":") for seed in range(10_000)]
    assert chisquare(np.bincount([int(time[0]) for time in found], minlength=24)).pvalue > ALPHA
    assert chisquare(np.bincount([int(time[1]) for time in found], minlength=60)).pvalue > ALPHA
    halves = [drawn("5pm", seed)[-2] for seed in range(5_000)]
    assert chisquare([halves.count("a"), halves.count("p")]).pvalue > ALPHA


@given(SEEDS)
def test_a_moment_is_valid(seed: int) -> None:
    date, _, time = drawn("2020-01-02T10:00:00.125+02:00", seed).partition("T")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", date)
    assert re.fullmatch(r"[012]\d:[0-5]\d:[0-5]\d\.\d{3}\+(0\d|1[012]):00", time)
    assert re.fullmatch(r".*T\d\d:\d\d:\d\dZ", drawn("2020-01-02T10:00:00Z", seed))
    assert re.fullmatch(r".*T\d\d:\d\d-\d\d00", drawn("2020-01-02T10:00-0500", seed))


@given(SEEDS, st.sampled_from(["1st", "22nd", "103rd", "11th", "1000th"]))
def test_an_ordinal_has_its_own_ending(seed: int, text: str) -> None:
    found = drawn(text, seed)
    number = int(found[:-2])
    assert len(found) == len(text)
    teen = 10 < number % 100 < 20
    assert found[-2:] == ("th" if teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th"))


def test_groups_of_one_number_come_back_as_many() -> None:
    for text in (
        "+44 7700 900123",
        "4111 1111 1111 1111",
        "DE89 3704 0044 0532 0130 00",
        "+1 2 34",
    ):
        assert list(map(len, drawn(text, 1).split())) == list(map(len, text.split()))
