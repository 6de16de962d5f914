"""The bound is the paper's, holds where the claim does, and catches what cheats."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sottovoce.cloud.training.dp_sgd.audit import bound, epsilon_at_least, probability

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "published"),
    [
        (1_000, 100, 75, 1e-4, 0.673),  # appendix D
        (100_000, 1_510, 1_439, 1e-5, 2.675),  # section 7, printed without rounding
    ],
)
def test_figures_of_the_paper(
    canaries: int, guesses: int, right: int, delta: float, published: float
) -> None:
    found = epsilon_at_least(canaries, guesses, right, delta)
    assert found == pytest.approx(published, abs=1e-3)


def test_all_guesses_right_is_a_closed_form() -> None:
    """P(Bin(r, q) = r) = q^r, and it is q = e^eps / (1 + e^eps)."""
    q = 0.05 ** (1 / 60)
    assert epsilon_at_least(60, 60, 60, 0.0) == pytest.approx(math.log(q / (1 - q)), abs=1e-3)


def test_delta_can_only_weaken_the_bound() -> None:
    bounds = [epsilon_at_least(500, 200, 170, delta) for delta in (0.0, 1e-5, 1e-4, 1e-3)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > bounds[-1]
    assert probability(500, 200, 200, 0.5, 1.0) == 1.0


def test_guesses_by_chance_show_nothing() -> None:
    assert epsilon_at_least(400, 400, 200, 1e-5) == 0.0
    scores, planted = RANDOM.normal(size=400), RANDOM.random(400) < 0.5
    assert bound(scores, planted, 1e-5).epsilon < 0.3


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_randomised_response_is_hardly_ever_refuted_and_nearly_reached(epsilon: float) -> None:
    """The mechanism for which the theorem is tight, forty times at 95 % confidence."""
    found = []
    for _ in range(40):
        planted = RANDOM.random(2_000) < 0.5
        honest = RANDOM.random(2_000) < 1 / (1 + math.exp(-epsilon))
        said = np.where(honest, planted, ~planted) + 1e-3 * RANDOM.random(2_000)
        found.append(bound(said, planted, 0.0).epsilon)
    # At most 5 in 100 are to be above: 8 of 40 has probability 7e-4 at exactly that rate.
    assert sum(each > epsilon for each in found) < 8
    assert np.median(found) > 0.75 * epsilon


def test_the_number_of_tries_is_paid_for() -> None:
    """The best of several numbers of guesses, each at 95 %, would be wrong more often than that."""
    planted = np.repeat([True, False], 32)
    shown = bound(np.where(planted, 1.0, 0.0), planted, 0.0)
    assert (shown.canaries, shown.guesses, shown.right) == (64, 64, 64)
    assert shown.confidence == 0.95
    assert shown.epsilon < epsilon_at_least(64, 64, 64, 0.0) - 0.3
