"""The attacker on vectors of sentences names words that a vector tells, and no others."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from bench.attacks.interface import Floats
from bench.baselines.decoder import Decoder

WORDS, IN_TEXT, TEXTS = 30, 3, 600


@pytest.mark.parametrize(("noise", "low", "high"), [(0.1, 0.9, 1.0), (50.0, 0.0, 0.25)])
def test_it_names_what_the_vector_tells(noise: float, low: float, high: float) -> None:
    random = np.random.default_rng(0)
    meaning = random.standard_normal((WORDS, 40)).astype(np.float32)
    chosen = [random.choice(WORDS, IN_TEXT, replace=False).tolist() for _ in range(TEXTS)]
    bags = [frozenset(f"word{place}" for place in some) for some in chosen]
    rows = np.stack([meaning[some].sum(axis=0) for some in chosen])

    def release(random: Generator, some: Floats = rows) -> Floats:
        found: Floats = (some + random.normal(0, noise, some.shape)).astype(np.float32)
        return found

    half = TEXTS // 2
    decoder = Decoder.fit(lambda each: release(each, rows[:half]), bags[:half])
    tally = decoder.tally(release(random, rows[half:]), bags[half:])
    assert tally.judged.tolist() == [IN_TEXT] * half
    # Chance names a tenth of the words; 900 words have a standard error of .01.
    assert low <= tally.share <= high
