"""The published price of a vote by its votes: figures of the reference code, and what must hold.

The figures are those that the reference's own tests state (tensorflow/privacy,
research/pate_2018/smooth_sensitivity_test.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from bench.private_prompts.by_votes import answer_moves, check_moves, price
from sottovoce.core.privacy.gaussian import Budget
from sottovoce.core.privacy.votes import VotePlan


def test_an_answers_moves_are_the_references() -> None:
    towards_doubt = [3.13503646e-17, 1.60178280e-08, 5.90681786e-03] + [5.99981308] * 7
    assert answer_moves((10, 0, 0), 0.5, 1.5) == pytest.approx(towards_doubt, rel=1e-8, abs=0)
    towards_agreement = [0.0] * 298 + [2.77693450548e-7, 2.10853979548e-6]
    towards_agreement += [2.73113623988e-6] * 1_700
    found = answer_moves((1_000, 500, 300, 200, 0), 250.0, 10.0)
    assert found == pytest.approx(towards_agreement, rel=1e-8, abs=0)


@pytest.mark.parametrize(
    ("threshold", "wanted"),
    [
        (
            16,
            [0.0] * 3
            + [1.48454129e-04, 1.47826870e-02, 3.94153241e-02, 6.45775697e-02, 9.01543247e-02]
            + [1.16054002e-01, 1.42180452e-01, 1.42180452e-01, 1.48454129e-04, 1.47826870e-02]
            + [3.94153241e-02, 6.45775697e-02, 9.01543266e-02, 1.16054000e-01, 1.42180452e-01]
            + [1.68302106e-01, 1.93127860e-01]
            + [0.0] * 10,
        ),
        (
            2,
            [1.60212079e-01, 2.07021132e-01, 2.07021132e-01, 1.93127860e-01, 1.68302106e-01]
            + [1.42180452e-01, 1.16054002e-01, 9.01543247e-02, 6.45775697e-02, 3.94153241e-02]
            + [1.47826870e-02, 1.48454129e-04]
            + [0.0] * 18,
        ),
        (
            50,
            [1.35750725752e-19, 1.88990500499e-17, 2.05403154065e-15, 1.74298153642e-13]
            + [1.15489723995e-11, 5.97584949325e-10, 2.41486826748e-08, 7.62150641922e-07]
            + [1.87846248741e-05, 3.60973025976e-4, 3.60973025976e-4, 2.76377015215e-50]
            + [1.00904975276e-53, 2.87254164748e-57, 6.37583360761e-61, 1.10331620211e-64]
            + [1.48844393335e-68, 1.56535552444e-72, 1.28328011060e-76, 8.20047697109e-81]
            + [0.0] * 10,
        ),
    ],
)
def test_the_first_questions_moves_are_the_references(threshold: int, wanted: list[float]) -> None:
    found = check_moves(20, 30, threshold, 2.0, 10.0)
    # The reference states its figures to eight digits or nine.
    assert found == pytest.approx(wanted, rel=3e-8, abs=0)


def test_a_vote_that_agrees_costs_less_than_its_plan_and_one_that_does_not_no_less() -> None:
    plan = VotePlan.within(Budget.of(8.0, 0.0, 10_000), 10_000, 100, share=4)
    teachers, asked = plan.teachers, plan.check.steps

    def of(top: int) -> np.ndarray:
        return np.tile([top, teachers - top], (asked, 1))

    answered = range(plan.answer.steps)
    sure, unsure = (price(of(top), answered, plan) for top in (teachers - 20, teachers // 2 + 1))
    assert sure.fixed == unsure.fixed > plan.epsilon  # Renyi's accounting is the looser one
    assert sure.exact < sure.told < sure.fixed / 4
    assert unsure.exact > sure.exact
    assert unsure.told > unsure.exact
    # Of what is not answered the second question is not paid for.
    assert price(of(teachers // 2 + 1), (), plan).exact < unsure.exact
