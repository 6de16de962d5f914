"""The bootstrap covers the mean."""

from __future__ import annotations

import numpy as np
import pytest

from bench.resampling import drawn, interval


def test_every_resample_has_as_many_items() -> None:
    times = drawn(40)
    assert (times.sum(axis=1) == 40).all()
    assert (times == drawn(40)).all()
    assert (times != drawn(40, seed=1)).any()


def test_the_interval_is_that_of_a_mean() -> None:
    items = np.random.default_rng(0).normal(3.0, 2.0, 400)
    low, high = interval(drawn(400) @ items / 400)
    assert low < items.mean() < high
    # 1.96 standard errors either side; the ends of 1,000 resamples vary by some per cent. Seeded.
    assert high - low == pytest.approx(2 * 1.96 * items.std() / 20, rel=0.1)
