"""The bootstrap covers the mean, and knows what falls together."""

from __future__ import annotations

import numpy as np
import pytest

from bench.resampling import Rate, drawn, interval


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


def test_an_interval_knows_that_items_of_a_document_fall_together() -> None:
    together, apart = Rate(), Rate()
    for place in range(40):
        together.add(10 * (place % 2), 10)
    for place in range(400):
        apart.add(place % 2, 1)
    wide, narrow = (np.ptp(each.interval()) for each in (together, apart))
    assert wide > 2 * narrow


def test_that_nothing_was_found_is_no_proof_that_there_is_nothing() -> None:
    one, many = Rate(), Rate()
    one.add(0, 500)
    one.add(0, 0)
    for _ in range(500):
        many.add(0, 1)
    assert one.interval() == pytest.approx([0, 0.793], abs=1e-3)  # one document says little
    assert many.interval() == pytest.approx([0, 0.0076], abs=1e-4)
