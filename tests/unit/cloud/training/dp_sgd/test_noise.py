"""No example weighs more than the clip; noise and divisor are as planned.

Significance level of each statistical test: 1e-6.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sottovoce.cloud.training.dp_sgd.steps import clipped_sum, noisy_mean, normal, sample
from sottovoce.core.privacy.gaussian import Stage

LEVEL = 1e-6
floats = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(floats, floats, floats), min_size=1, max_size=4), st.floats(0.01, 10))
def test_one_example_never_moves_the_sum_by_more_than_the_clip(
    rows: list[tuple[float, float, float]], clip: float
) -> None:
    whole = torch.tensor(rows)
    gradients = {"a": whole[:, :2], "b": whole[:, 2:]}
    alone = {name: each[:1] for name, each in gradients.items()}
    moved = clipped_sum(alone, clip)
    length = math.hypot(*(float(part.double().norm()) for part in moved.values()))
    assert length <= clip


def test_what_is_short_enough_is_left_as_it_is() -> None:
    found = clipped_sum({"a": torch.tensor([[0.3, 0.0], [0.0, 0.4]])}, 0.5)
    assert torch.allclose(found["a"], torch.tensor([0.3, 0.4]), atol=1e-6)


def test_the_length_is_over_all_that_is_trained() -> None:
    found = clipped_sum({"a": torch.tensor([[3.0]]), "b": torch.tensor([[4.0]])}, 1.0)
    assert found["a"].item() == pytest.approx(0.6, rel=1e-5)
    assert found["b"].item() == pytest.approx(0.8, rel=1e-5)


def test_each_is_clipped_before_they_are_summed() -> None:
    found = clipped_sum({"a": torch.tensor([[100.0], [-1.0], [-1.0]])}, 1.0)
    assert found["a"].item() == pytest.approx(-1.0, rel=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_an_example_without_a_number_counts_as_nothing(wrong: float) -> None:
    found = clipped_sum({"a": torch.tensor([[wrong, 1.0], [0.1, 0.0]])}, 1.0)
    assert torch.allclose(found["a"], torch.tensor([0.1, 0.0]), atol=1e-6)


def test_a_step_is_the_sum_and_noise_over_the_number_expected() -> None:
    stage = Stage(steps=1, share=0.1, noise=2.0, clip=0.5)
    sums = {"a": torch.full((50_000,), 3.0)}
    mean = noisy_mean(sums, stage, records=200)["a"].double()
    # 20 examples are expected, whatever the sample held.
    noise = (mean * 20 - 3.0) / (2.0 * 0.5)
    assert stats.kstest(noise.numpy(), "norm").pvalue > LEVEL


def test_noise_is_drawn_even_where_nobody_was_sampled() -> None:
    stage = Stage(steps=1, share=0.1, noise=1.0, clip=1.0)
    assert float(noisy_mean({"a": torch.zeros(8)}, stage, records=100)["a"].abs().min()) > 0


def test_noise_is_normal() -> None:
    drawn = normal((200_000,)).double().numpy()
    assert stats.kstest(drawn, "norm").pvalue > LEVEL


def test_noise_of_neighbours_is_independent() -> None:
    drawn = normal((2, 100_000)).double().numpy()
    for one, other in ((drawn[0], drawn[1]), (drawn[0][:-1], drawn[0][1:])):
        assert stats.pearsonr(one, other).pvalue > LEVEL
        assert stats.pearsonr(one**2, other**2).pvalue > LEVEL


def test_every_shape_is_filled() -> None:
    for shape in ((0,), (1,), (3, 5), (2, 3, 7), (1 << 18, 3)):
        drawn = normal(shape)
        assert drawn.shape == shape
        assert drawn.dtype == torch.float64
        assert len(drawn.unique()) >= 0.95 * drawn.numel()


def test_no_seed_brings_noise_or_a_sample_back() -> None:
    def draw() -> tuple[list[float], list[int]]:
        torch.manual_seed(7)
        np.random.seed(7)
        return normal((8,)).tolist(), sample(1_000, 0.5)

    assert draw() != draw()


def test_each_example_is_drawn_by_itself() -> None:
    sizes = [len(sample(400, 0.1)) for _ in range(2_000)]
    expected = stats.binom(400, 0.1)
    # A chi-square test over ranges that 25 of the 2,000 at least fall into.
    edges = expected.ppf(np.linspace(0, 1, 41)[1:-1])
    edges = np.unique(edges)
    cells = np.digitize(sizes, edges)
    shares = np.diff(np.concatenate([[0.0], expected.cdf(edges - 1), [1.0]]))
    counts = np.bincount(cells, minlength=len(shares))
    assert stats.chisquare(counts, shares * len(sizes)).pvalue > LEVEL


def test_a_sample_may_be_empty_or_everything() -> None:
    assert sample(10, 0.0) == []
    assert sample(10, 1.0) == list(range(10))
