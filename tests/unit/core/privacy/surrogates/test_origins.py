"""Nationalities for nationalities, religions for religions, and never an insult."""

import numpy as np
import pytest
from scipy.stats import chisquare

from sottovoce.core.privacy.surrogates import origins

ALPHA = 1e-6
"""Significance of a statistical test: a right program fails one run in a million."""


def draws(word: str, n: int = 3_000, seed: int = 1) -> list[str]:
    random = np.random.default_rng(seed)
    return [origins.draw(origins.shape(word), random) for _ in range(n)]


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
    assert origins.shape(one) == origins.shape(other)
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
    assert origins.shape("Danish") == ("origin", "nationality", "capitalised")
    assert origins.shape("mosque") == ("origin", "shrine", "lower")


def test_insults_and_bygone_peoples_are_met_but_never_drawn() -> None:
    for word in ("negro", "gypsy", "mulatto", "soviet"):
        assert word in origins.words()
        assert word not in draws(word, 20_000)


def test_the_case_is_kept() -> None:
    assert draws("Danish", 9) == [word.capitalize() for word in draws("danish", 9)]
    assert draws("DANISH", 9) == [word.upper() for word in draws("danish", 9)]
