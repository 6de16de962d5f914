"""Noise is normal, samples are Poisson samples, and nothing repeats either.

Significance level of each statistical test: 1e-6.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from sottovoce.cloud.training.dp_sgd.noise import normal, sample

LEVEL = 1e-6


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
