"""An unlisted word becomes a plain word or another of its sort."""

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import unlisted
from sottovoce.core.privacy.surrogates.shape import listed

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""


def drawn(text: str, seed: int = 1) -> str:
    return unlisted.draw(unlisted.shape(text), np.random.default_rng(seed))


@pytest.mark.parametrize("text", ["flibbertigibbet", "zß", "шарф", "iPhone", "o'clockish", "ab1"])
def test_a_word_becomes_a_small_listed_one(text: str) -> None:
    assert drawn(text) in listed("words")
    assert drawn(text) == drawn("other")


def test_its_case_is_kept() -> None:
    assert drawn("Zorblax") == drawn("other").capitalize()
    assert drawn("ZORBLAX") == drawn("other").upper()


def test_any_listed_word_is_as_likely() -> None:
    random, shape = np.random.default_rng(2), unlisted.shape("zorblax")
    found = [unlisted.draw(shape, random) for _ in range(10_000)]
    assert chisquare([found.count(word) for word in listed("words")]).pvalue > ALPHA


@pytest.mark.parametrize(("text", "like"), [("J", "A"), ("q", "a"), ("ж", "a"), ("é", "a")])
def test_a_letter_alone_becomes_a_letter(text: str, like: str) -> None:
    found = {drawn(text, seed) for seed in range(400)}
    assert found == {chr(ord(like) + place) for place in range(26)}


def test_what_it_is_made_of_is_published() -> None:
    shapes = [unlisted.shape(text) for text in ("Zorblax", "q", "U.s.", "\u6211\u6211", "😀", "→")]
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
    assert unlisted.shape("\u6211") == unlisted.shape("\U00020000")
    for n in (1, 3):
        found = drawn("\u6211" * n)
        assert len(found) == n
        assert all(unicodedata.name(each).startswith("CJK UNIFIED") for each in found)


@pytest.mark.parametrize(
    ("text", "twin"), [("😀", "🇩🇪"), ("❤\ufe0f", "👍🏽"), ("→", "±"), ("\x1b", "\ue000")]
)
def test_signs_become_signs(text: str, twin: str) -> None:
    assert unlisted.shape(text) == unlisted.shape(twin)
    assert unicodedata.category(drawn(text)) in ("So", "Sm", "Po")


@given(st.text(st.characters(exclude_categories=()), min_size=1), st.integers(0, 2**32))
def test_whatever_is_typed_can_be_sent_and_has_no_white_space(text: str, seed: int) -> None:
    found = drawn(text, seed)
    assert found.encode("utf-8")
    assert not any(character.isspace() for character in found)
