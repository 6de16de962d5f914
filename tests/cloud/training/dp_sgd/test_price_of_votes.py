"""What the core says a vote costs is what the library's accountants say."""

from __future__ import annotations

import math
from dataclasses import replace

import dp_accounting
import pytest
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from sottovoce.core.privacy.gaussian import Budget, Stage, epsilon_of_whole
from sottovoce.core.privacy.votes import VotePlan

BUDGET = Budget(3.0, 1e-5)


def by_renyi(check: float, answer: float, queries: int, delta: float) -> float:
    """As the papers count: the first question moves by 1, the second by the root of 2."""
    accountant = RdpAccountant()
    for sigma, moves in ((check, 1.0), (answer, math.sqrt(2))):
        event = dp_accounting.GaussianDpEvent(sigma / moves)
        accountant.compose(dp_accounting.SelfComposedDpEvent(event, queries))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-12])
def test_the_closed_form_is_the_librarys(noise: float, delta: float) -> None:
    ours = epsilon_of_whole((Stage(1, 1.0, noise, 1.0),), delta)
    assert ours == pytest.approx(get_epsilon_gaussian(noise, delta), rel=1e-6)


def test_the_librarys_own_accountants_agree() -> None:
    made = VotePlan.within(BUDGET, 6_000, 200)
    made = replace(made, answer=replace(made.answer, steps=200))
    check, answer = made.check.noise * made.check.clip, made.answer.noise * made.answer.clip
    renyi = by_renyi(check, answer, 200, 1e-5)
    assert made.epsilon <= renyi <= 1.15 * made.epsilon
    losses = PLDAccountant(value_discretization_interval=1e-3)
    for stage in (made.check, made.answer):
        losses.compose(dp_accounting.GaussianDpEvent(stage.noise / math.sqrt(200)))
    assert made.epsilon == pytest.approx(losses.get_epsilon(1e-5), rel=0.01)


def test_the_papers_own_settings_cost_about_101() -> None:
    """Sigmas of 1 and 20, 100 texts, delta 1e-6: the .178 told of them depends on the data."""
    assert by_renyi(1.0, 20.0, 100, 1e-6) == pytest.approx(101.1, abs=0.1)
    ours = replace(
        VotePlan.within(Budget(1.0, 1e-6), 6_000, 100),
        check=Stage(100, 1.0, 1.0, 1.0),
        answer=Stage(100, 1.0, 20.0 / math.sqrt(2), math.sqrt(2)),
    )
    assert ours.epsilon == pytest.approx(97.1, abs=0.1)
