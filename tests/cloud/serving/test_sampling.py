"""Tokens are drawn from what they should be drawn from, and equal seeds draw alike."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from sottovoce.cloud.serving.generation import Draw, Sampling, choose

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -9.0], [0.0, 0.0, 5.0, 0.0, 0.0]])


def drawn(sampling: Sampling, times: int, logits: torch.Tensor = LOGITS[0]) -> list[int]:
    draw = Draw(sampling)
    return [draw.token(logits) for _ in range(times)]


def test_without_temperature_the_likeliest_is_taken() -> None:
    assert choose(LOGITS, [Draw(Sampling()), Draw(Sampling())]) == [0, 2]


def test_rows_choose_each_in_its_own_way() -> None:
    hot = Sampling(temperature=2.0, seed=3)
    expected = drawn(hot, 1)[0]
    for others in ([], [Draw(Sampling(temperature=1.0))]):
        found = choose(LOGITS[[0] * (1 + len(others))], [Draw(hot), *others])
        assert found[0] == expected


def test_draws_follow_the_softmax() -> None:
    """A chi-squared test at 1e-4."""
    counts = torch.tensor(drawn(Sampling(temperature=1.5, seed=1), 2_000)).bincount(minlength=5)
    expected = torch.softmax(LOGITS[0].double() / 1.5, 0)[:4]  # the last is met once in all
    expected *= counts[:4].sum() / expected.sum()
    assert stats.chisquare(counts[:4], expected).pvalue > 1e-4


def test_the_nucleus_is_the_fewest_that_have_the_probability() -> None:
    # .64 .24 .09 .03: two are not enough for .9, three are.
    assert set(drawn(Sampling(temperature=1.0, top_p=0.9, seed=2), 300)) == {0, 1, 2}
    assert set(drawn(Sampling(temperature=1.0, top_p=0.6, seed=2), 100)) == {0}


@pytest.mark.parametrize("temperature", [5e-324, 1e-40, 1e-3, 2.0])
@pytest.mark.parametrize("top_p", [5e-324, 1e-40, 1.0])
def test_no_choice_of_a_caller_makes_the_draw_fail(temperature: float, top_p: float) -> None:
    # A row that fails would take those of others with it.
    found = drawn(Sampling(temperature=temperature, top_p=top_p, seed=2), 20)
    assert set(found) <= {0, 1, 2, 3, 4}
    assert set(found) == {0} or (temperature, top_p) == (2.0, 1.0)


def test_a_nucleus_may_be_wide() -> None:
    flat = torch.zeros(1_000)
    found = set(drawn(Sampling(temperature=1.0, top_p=0.5, seed=4), 1_500, flat))
    # 500 of equal probability, each missed 1,500 times with probability e^-3.
    assert 440 < len(found) <= 500


def test_equal_seeds_draw_alike_and_others_do_not() -> None:
    one, same, other, random, again = (
        drawn(Sampling(temperature=2.0, seed=seed), 60) for seed in (7, 7, 8, None, None)
    )
    assert one == same
    assert one != other
    assert random != again  # the commonest token has .5: equal by chance once in 2^60
    assert drawn(Sampling(temperature=2.0, seed=(1 << 64) - 1), 1)


def test_a_low_temperature_comes_to_the_likeliest() -> None:
    assert set(drawn(Sampling(temperature=1e-6, seed=1), 20)) == {0}
