"""Noise is normal and unrepeatable, and costs the closed form's price or more.

Significance level of each statistical test: 1e-6.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.gaussian import (
    Budget,
    Stage,
    epsilon_of_whole,
    normal,
    usual_delta,
    with_least_noise,
)
from tests.support.gaussian import of_gaussian

LEVEL = 1e-6


def test_noise_is_normal_and_independent() -> None:
    drawn = normal(200_000).astype(np.float64)
    assert stats.kstest(drawn, "norm").pvalue > LEVEL
    assert stats.pearsonr(drawn[:-1], drawn[1:]).pvalue > LEVEL
    assert stats.pearsonr(drawn[:-1] ** 2, drawn[1:] ** 2).pvalue > LEVEL


def test_any_number_is_drawn() -> None:
    for n in (0, 1, 7, (1 << 18) + 3):
        drawn = normal(n)
        assert drawn.shape == (n,)
        assert len(np.unique(drawn)) >= 0.95 * n


def test_no_seed_brings_noise_back() -> None:
    def draw() -> list[float]:
        np.random.seed(7)
        drawn: list[float] = normal(8).tolist()
        return drawn

    assert draw() != draw()


@pytest.mark.parametrize("noise", [0.4, 1.0, 7.0])
@pytest.mark.parametrize("steps", [1, 50])
def test_steps_cost_what_the_closed_form_says(noise: float, steps: int) -> None:
    exact = of_gaussian(noise, steps, 1e-5) if noise / math.sqrt(steps) > 0.1 else None
    found = epsilon_of_whole((Stage(steps, 1.0, noise, 1.0),), 1e-5)
    assert exact is None or found == pytest.approx(exact, rel=1e-6)
    # However they are split, and however large.
    halves = (Stage(steps, 1.0, noise * math.sqrt(2), 1.0),) * 2
    assert epsilon_of_whole(halves, 1e-5) == pytest.approx(found, rel=1e-6)


def test_a_price_is_told_where_the_tail_is_far() -> None:
    assert epsilon_of_whole((Stage(1, 1.0, 0.01, 1.0),), 1e-6) > 5_000
    assert 0 < epsilon_of_whole((Stage(1, 1.0, 900.0, 1.0),), 1e-9) < 0.02


def test_the_least_noise_keeps_to_the_budget_and_little_more_does() -> None:
    budget = Budget(3.0, 1e-5)
    noise = with_least_noise(lambda n: (Stage(40, 1.0, n, 1.0),), budget)
    assert 2.99 < epsilon_of_whole((Stage(40, 1.0, noise, 1.0),), 1e-5) <= 3.0


def test_steps_on_samples_have_no_closed_form() -> None:
    with pytest.raises(ValueError, match="no closed form"):
        epsilon_of_whole((Stage(1, 0.5, 1.0, 1.0),), 1e-5)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="positive"):
        Budget(epsilon, 1e-5)


def test_a_delta_that_gives_examples_away_is_refused() -> None:
    with pytest.raises(InvalidInput, match="single examples"):
        Budget.of(1.0, 0.01, 1_000)
    assert Budget.of(1.0, 0.0, 50_000).delta == usual_delta(50_000) == 1 / 500_000
