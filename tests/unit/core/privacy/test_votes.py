"""Each vote gets the noise made for it, and pays for it, whether it is answered or not.

Every way in which published code went wrong has a test. Significance level of each statistical
test: 1e-6.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.gaussian import Budget
from sottovoce.core.privacy.votes import NOBODY, SHARE, VotePlan, ask, deal, tally
from tests.support.gaussian import of_gaussian

LEVEL = 1e-6
BUDGET = Budget(3.0, 1e-5)


def plan(check: float, answer: float, *, texts: int, threshold: float = 60.0) -> VotePlan:
    """Of 100 teachers, with noise of these multipliers."""
    usual = VotePlan.within(BUDGET, 6_000, 100)
    return replace(
        usual,
        threshold=threshold,
        check=replace(usual.check, steps=texts, noise=check),
        answer=replace(usual.answer, steps=texts, noise=answer),
    )


@pytest.mark.parametrize(("epsilon", "public"), [(1.0, 50), (3.0, 400), (8.0, 400)])
def test_a_vote_costs_what_the_closed_form_says(epsilon: float, public: int) -> None:
    made = VotePlan.within(Budget(epsilon, 1e-5), 6_000, public)
    check, answer = made.check.noise * made.check.clip, made.answer.noise * made.answer.clip
    # Every text asked about pays for the first question, half as many for the second.
    mean = math.sqrt(made.check.steps / check**2 + 2 * made.answer.steps / answer**2)
    assert made.epsilon == pytest.approx(of_gaussian(1 / mean, 1, 1e-5), rel=0.01)
    assert epsilon * 0.98 < made.epsilon <= epsilon
    # Refused for nothing, or no root of two: each would claim to have spent less.
    free = math.sqrt(2 * made.answer.steps / answer**2)
    rootless = math.sqrt(made.check.steps / check**2 + made.answer.steps / answer**2)
    for wrong in (free, rootless):
        assert of_gaussian(1 / wrong, 1, 1e-5) < 0.97 * made.epsilon


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=6),
    st.integers(0, 3),
)
def test_one_teacher_moves_the_questions_by_what_their_noise_is_for(
    votes: list[list[int]], other: int
) -> None:
    made = VotePlan.within(BUDGET, 6_000, 2)
    before = tally([np.array(each) for each in votes], 2, 4)
    changed = [np.array([other, other]), *(np.array(each) for each in votes[1:])]
    without = [np.array(each) for each in votes[1:]]
    silent = [np.array([NOBODY, other]), *without]
    for neighbour in (changed, without, silent):
        after = tally(neighbour, 2, 4)
        moved = np.linalg.norm(after - before, axis=1)
        assert moved.max() <= made.answer.clip
        highest = after.max(1) - before.max(1)
        assert np.abs(highest).max() <= made.check.clip


@pytest.mark.parametrize("threshold", [50.0, 60.0, 75.0])
def test_the_first_question_gets_its_own_noise(threshold: float) -> None:
    counts = np.tile([[60, 30, 10]], (4_000, 1))
    answers = ask(counts, plan(12.0, 1e-6, texts=4_000, threshold=threshold))
    expected = stats.norm.sf(threshold, 60, 12.0)
    assert stats.binomtest(len(answers), 4_000, expected).pvalue > LEVEL
    assert set(answers.values()) == {0}, "the second question had the first one's noise"


def test_the_second_question_gets_its_own_noise() -> None:
    counts = np.tile([[70, 50]], (4_000, 1))
    answers = ask(counts, plan(1e-6, 15.0, texts=4_000))
    assert len(answers) == 4_000, "the first question had the second one's noise"
    # Two counts, each with noise of 15 times the root of two.
    expected = stats.norm.cdf(20 / (15 * 2))
    first = sum(answer == 0 for answer in answers.values())
    assert stats.binomtest(first, 4_000, expected).pvalue > LEVEL


def test_a_label_nobody_votes_for_is_an_outcome_too() -> None:
    counts = tally([np.zeros(2_000, np.int64)] * 90, 2_000, 3)
    assert counts.shape == (2_000, 3)
    answers = ask(counts, plan(1e-6, 1e4, texts=2_000))
    found = np.bincount([*answers.values()], minlength=3)
    assert stats.chisquare(found).pvalue > LEVEL


def test_no_more_is_answered_or_asked_than_is_paid_for() -> None:
    made = VotePlan.within(BUDGET, 6_000, 80)
    assert (made.check.steps, made.answer.steps) == (80, 40)
    sure = np.tile([[100_000, 0]], (80, 1))
    assert [*ask(sure, made)] == [*range(40)]
    with pytest.raises(ValueError, match="pays for"):
        ask(np.tile(sure, (2, 1)), made)


def test_the_price_is_fixed_before_anybody_votes() -> None:
    made = VotePlan.within(BUDGET, 6_000, 80)
    before = made.to_dict()
    nobody = ask(np.zeros((80, 2), np.int64), replace(made, threshold=math.inf))
    assert nobody == {}
    assert made.to_dict() == before
    assert before["check"]["steps"] == 80


def test_one_record_more_moves_no_other() -> None:
    for n in (1, 59, 600):
        fewer, more = (deal(size, 7, np.random.default_rng(n)) for size in (n, n + 1))
        assert [[at for at in share if at < n] for share in more] == fewer
        assert sorted(at for share in more for at in share) == [*range(n + 1)]


def test_every_record_is_drawn_a_teacher_that_no_seed_brings_back() -> None:
    owners = np.empty(6_000, int)
    for teacher, share in enumerate(deal(6_000, 10)):
        owners[share] = teacher
    assert stats.chisquare(np.bincount(owners, minlength=10)).pvalue > LEVEL
    assert stats.pearsonr(owners, np.arange(6_000)).pvalue > LEVEL
    np.random.seed(1)
    first = deal(50, 10)
    np.random.seed(1)
    assert deal(50, 10) != first


def test_a_budget_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too small"):
        VotePlan.within(Budget(1e-4, 1e-9), 6_000, 400)


def test_whoever_gets_the_adapter_is_told_what_holds() -> None:
    facts = VotePlan.within(BUDGET, 6_000, 400).to_dict()
    assert (facts["mechanism"], facts["delta"]) == ("pate", 1e-5)
    assert facts["unit"] == "one uploaded example added or removed"
    assert facts["epsilon"] <= 3.0
    assert facts["teachers"] == 100
    assert facts["check"]["clip"] == 1.0
    assert facts["answer"]["clip"] == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(("share", "teachers"), [(SHARE, 100), (4, 1_500), (6_000, 2)])
def test_a_share_is_about_as_large_as_asked_for(share: int, teachers: int) -> None:
    assert VotePlan.within(BUDGET, 6_000, 80, share=share).teachers == teachers


def test_who_has_no_vote_is_counted_nowhere() -> None:
    votes = [np.array([NOBODY, 1]), np.array([2, NOBODY]), np.array([NOBODY, NOBODY])]
    assert tally(votes, 2, 3).tolist() == [[0, 0, 1], [0, 1, 0]]
