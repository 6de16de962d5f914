"""Random characters depend on the layout alone, and are uniform."""

import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from sottovoce.core.privacy import surrogates

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""


def scrambled(text: str, seed: int) -> str:
    return surrogates.fill(surrogates.layout(text), np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("sk-Ab3", "aa-Aa9"),
        ("٣²Ⅷ½", "9999"),
        ("éßжÉЖ", "aaaAA"),
        ("\u01c5", "A"),
        ("£€$", "£€$"),
        ("\ud83d😀我\x00", "aaaa"),
        (string.punctuation, string.punctuation),
    ],
)
def test_layout(text: str, layout: str) -> None:
    assert surrogates.layout(text) == layout


@given(st.text(st.sampled_from("aZ09é£٣@:/-_,#%+(")), st.integers(0, 2**32))
def test_keeps_the_layout(text: str, seed: int) -> None:
    assert surrogates.layout(scrambled(text, seed)) == surrogates.layout(text)


@pytest.mark.parametrize(
    ("place", "alphabet"),
    [
        ("9", string.digits),
        ("a", string.ascii_lowercase),
        ("A", string.ascii_uppercase),
        ("f", "0123456789abcdef"),
        ("F", "0123456789ABCDEF"),
    ],
)
def test_each_place_is_uniform_over_its_alphabet(place: str, alphabet: str) -> None:
    found = surrogates.fill(place * 50_000, np.random.default_rng(5))
    counts = [found.count(character) for character in alphabet]
    assert sum(counts) == 50_000
    assert chisquare(counts).pvalue > ALPHA


def test_places_are_independent() -> None:
    found = surrogates.fill("99" * 50_000, np.random.default_rng(6))
    pairs = [int(found[place : place + 2]) for place in range(0, len(found), 2)]
    assert chisquare(np.bincount(pairs, minlength=100)).pvalue > ALPHA


def test_a_draw_that_equals_the_original_stays() -> None:
    random = np.random.default_rng(8)
    same = sum(surrogates.fill("9", random) == "7" for _ in range(20_000))
    # Binomial(20000, 1/10): 5 standard deviations either side, significance below 1e-6.
    assert abs(same - 2_000) < 5 * (20_000 * 0.09) ** 0.5


def test_uniformity_test_would_catch_a_draw_that_avoids_the_original() -> None:
    random = np.random.default_rng(9)
    drawn = random.integers(10, size=100_000)
    assert chisquare(np.bincount(drawn[drawn != 7], minlength=10)).pvalue < ALPHA
