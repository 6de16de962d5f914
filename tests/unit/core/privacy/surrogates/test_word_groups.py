"""A word becomes another of its group: a number word, an origin, or a word in no list."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import words_of
from sottovoce.core.privacy.surrogates.word_groups import (
    _GROUPS,
    draw_number,
    draw_origin,
    draw_unlisted,
    number_shape,
    origin_shape,
    origins,
    unlisted_shape,
)

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.mark.parametrize("digit", ["zero", "nine", "oh", "o", "whatever"])
def test_a_digit_is_uniform_whatever_it_was(digit: str) -> None:
    random = np.random.default_rng(1)
    drawn = [draw_number(number_shape(digit), random) for _ in range(5_000)]
    assert chisquare([drawn.count(each) for each in DIGITS]).pvalue > ALPHA
    assert set(drawn) == set(DIGITS)


@pytest.mark.parametrize(
    ("word", "sort"),
    [
        *(("thirteen", "teen"), ("Forty", "tens"), ("dozen", "scale"), ("hundreds", "scales")),
        *(("third", "ordinal"), ("TWELFTH", "teenth"), ("half", "fraction"), ("twice", "times")),
        *(("thirds", "fractions"), ("couple", "multiple"), ("sixties", "decade"), ("xx", "roman")),
        *(("fiftieth", "tieth"), ("hundredth", "scale ordinal"), ("fifth", "ordinal")),
        *(("tenth", "teenth"), ("quarter", "fraction")),
    ],
)
def test_groups(word: str, sort: str) -> None:
    assert number_shape(word) == ("number", sort, number_shape(word).layout)
    assert word.lower() in _GROUPS


def test_what_is_drawn_is_itself_of_the_group_but_for_the_fractions() -> None:
    random = np.random.default_rng(2)
    for word in _GROUPS:
        shape = number_shape(word)
        drawn = draw_number(shape, random)
        assert drawn in _GROUPS
        assert shape.sort in ("fraction", number_shape(drawn).sort)


def test_the_case_is_kept() -> None:
    drawn = [draw_number(number_shape(w), np.random.default_rng(3)) for w in ("one", "One", "ONE")]
    assert drawn[1:] == [drawn[0].capitalize(), drawn[0].upper()]


def draws(word: str, n: int = 3_000, seed: int = 1) -> list[str]:
    random = np.random.default_rng(seed)
    return [draw_origin(origin_shape(word), random) for _ in range(n)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("danish", "vietnamese"),
        ("danish", "hebrew"),
        ("danish", "cherokee"),
        ("danes", "immigrants"),
        ("frenchman", "refugee"),
        ("muslim", "orthodox"),
        ("muslims", "atheists"),
        ("islam", "judaism"),
        ("priest", "imam"),
        ("mosque", "church"),
        ("quran", "bible"),
        ("black", "white"),
        ("blacks", "danes"),
        ("danish", "nobody-listed-this"),
    ],
)
def test_nobody_can_tell_these_two_apart(one: str, other: str) -> None:
    assert origin_shape(one) == origin_shape(other)
    assert draws(one, 100) == draws(other, 100)


@pytest.mark.parametrize("word", ["danish", "danes", "muslim", "mosque", "black", "pray"])
def test_uniform_over_its_sort(word: str) -> None:
    drawn = draws(word)
    choices = set(draws(word, 20_000, seed=2))
    assert len(choices) >= 4
    assert chisquare([drawn.count(choice) for choice in choices]).pvalue > ALPHA


def test_what_is_drawn_is_of_the_same_kind_of_fact() -> None:
    assert {"danish", "kenyan", "japanese"} < set(draws("danish"))
    assert {"catholic", "hindu", "jewish", "muslim"} < set(draws("muslim"))
    assert {"red", "white", "green"} < set(draws("black"))
    assert not set(draws("danish")) & set(draws("muslim"))


def test_the_sort_is_published() -> None:
    assert origin_shape("Danish") == ("origin", "nationality", "capitalised")
    assert origin_shape("mosque") == ("origin", "shrine", "lower")


def test_insults_and_bygone_peoples_are_met_but_never_drawn() -> None:
    for word in ("negro", "gypsy", "mulatto", "soviet"):
        assert word in origins()
        assert word not in draws(word, 20_000)


def test_the_case_of_an_origin_is_kept() -> None:
    assert draws("Danish", 9) == [word.capitalize() for word in draws("danish", 9)]
    assert draws("DANISH", 9) == [word.upper() for word in draws("danish", 9)]


def drawn(text: str, seed: int = 1) -> str:
    return draw_unlisted(unlisted_shape(text), np.random.default_rng(seed))


@pytest.mark.parametrize("text", ["flibbertigibbet", "zß", "шарф", "iPhone", "o'clockish", "ab1"])
def test_a_word_becomes_a_small_listed_one(text: str) -> None:
    assert drawn(text) in words_of("words")
    assert drawn(text) == drawn("other")


def test_its_case_is_kept() -> None:
    assert drawn("Zorblax") == drawn("other").capitalize()
    assert drawn("ZORBLAX") == drawn("other").upper()


def test_any_listed_word_is_as_likely() -> None:
    random, shape = np.random.default_rng(2), unlisted_shape("zorblax")
    found = [draw_unlisted(shape, random) for _ in range(10_000)]
    assert chisquare([found.count(word) for word in words_of("words")]).pvalue > ALPHA


@pytest.mark.parametrize(("text", "like"), [("J", "A"), ("q", "a"), ("ж", "a"), ("é", "a")])
def test_a_letter_alone_becomes_a_letter(text: str, like: str) -> None:
    found = {drawn(text, seed) for seed in range(400)}
    assert found == {chr(ord(like) + place) for place in range(26)}


def test_what_it_is_made_of_is_published() -> None:
    shapes = [unlisted_shape(text) for text in ("Zorblax", "q", "U.s.", "\u6211\u6211", "😀", "→")]
    assert {shape.kind for shape in shapes} == {"unlisted"}
    sorts = [("word", "capitalised"), ("letters", "a"), ("letters", "A.a."), ("ideographs", "2")]
    assert [shape[1:] for shape in shapes] == [*sorts, ("picture", ""), ("sign", "")]


def test_an_abbreviation_keeps_its_full_stops_and_case() -> None:
    first, dot, second, end = drawn("U.s.")
    assert (dot, end) == (".", ".")
    assert first.isascii()
    assert first.isupper()
    assert second.isascii()
    assert second.islower()
    assert drawn("U.s.") == drawn("É.ж.")


def test_an_ideograph_becomes_one_and_several_become_as_many() -> None:
    assert unlisted_shape("\u6211") == unlisted_shape("\U00020000")
    for n in (1, 3):
        found = drawn("\u6211" * n)
        assert len(found) == n
        assert all(unicodedata.name(each).startswith("CJK UNIFIED") for each in found)


@pytest.mark.parametrize(
    ("text", "twin"), [("😀", "🇩🇪"), ("❤\ufe0f", "👍🏽"), ("→", "±"), ("\x1b", "\ue000")]
)
def test_signs_become_signs(text: str, twin: str) -> None:
    assert unlisted_shape(text) == unlisted_shape(twin)
    assert unicodedata.category(drawn(text)) in ("So", "Sm", "Po")


@given(st.text(st.characters(exclude_categories=()), min_size=1), st.integers(0, 2**32))
def test_whatever_is_typed_can_be_sent_and_has_no_white_space(text: str, seed: int) -> None:
    found = drawn(text, seed)
    assert found.encode("utf-8")
    assert not any(character.isspace() for character in found)
