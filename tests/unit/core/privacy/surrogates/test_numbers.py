"""A spelled number stands for one of its group, whatever it was."""

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import numbers

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""

DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


@pytest.mark.parametrize("digit", ["zero", "nine", "oh", "o", "whatever"])
def test_a_digit_is_uniform_whatever_it_was(digit: str) -> None:
    random = np.random.default_rng(1)
    drawn = [numbers.draw(numbers.shape(digit), random) for _ in range(5_000)]
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
    assert numbers.shape(word) == ("number", sort, numbers.shape(word).layout)
    assert word.lower() in numbers.WORDS


def test_what_is_drawn_is_itself_of_the_group_but_for_the_fractions() -> None:
    random = np.random.default_rng(2)
    for word in sorted(numbers.WORDS):
        shape = numbers.shape(word)
        drawn = numbers.draw(shape, random)
        assert drawn in numbers.WORDS
        assert shape.sort in ("fraction", numbers.shape(drawn).sort)


def test_the_case_is_kept() -> None:
    drawn = [
        numbers.draw(numbers.shape(w), np.random.default_rng(3)) for w in ("one", "One", "ONE")
    ]
    assert drawn[1:] == [drawn[0].capitalize(), drawn[0].upper()]
