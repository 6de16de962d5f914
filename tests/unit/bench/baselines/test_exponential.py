"""Baselines draw as they say they do, and tell the attacker the truth about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.attacks.channels import distances
from bench.attacks.interface import Candidates, Floats
from bench.attacks.text import Ints
from bench.baselines.custext import CusText
from bench.baselines.santext import SanText

WORDS = 105
KEPT = 0.6


class Small(CusText):
    """Over random points instead of a bundle's."""

    @property
    def rows(self) -> Floats:
        return np.random.default_rng(0).standard_normal((WORDS, 6)).astype(np.float32)

    @property
    def kept(self) -> float:
        return KEPT

    def sample(self) -> tuple[Ints, Ints]:
        return np.arange(WORDS, dtype=np.int32), np.zeros(WORDS, np.int32)


@pytest.fixture(scope="module")
def small() -> Small:
    nothing: Any = None
    return Small(nothing)


def test_custext_sends_what_its_evidence_says(small: Small) -> None:
    every = np.arange(WORDS, dtype=np.int32)
    candidates = Candidates(every, np.zeros(WORDS, np.float32))
    shares = np.exp(small.evidence(every, candidates))  # (released, true)
    assert shares.sum(axis=0) == pytest.approx(1, abs=1e-4)  # each word becomes some word
    assert ((shares > 1e-9).sum(axis=0) <= small.size).all()
    word, n = 17, 4_000
    sent = small.send(np.full(n, word, np.int32), np.zeros(n, np.int32), np.random.default_rng(1))
    met = np.bincount(sent, minlength=WORDS) / n
    # Five standard errors for each of 105 words: false alarm under one in 10,000 (and seeded).
    assert np.abs(met - shares[:, word]).max() < 5 * (0.25 / n) ** 0.5


def test_custext_keeps_the_share_it_is_asked_for(small: Small) -> None:
    every = np.tile(np.arange(WORDS, dtype=np.int32), 60)
    sent = small.send(every, np.zeros_like(every), np.random.default_rng(2))
    assert (sent == every).mean() == pytest.approx(KEPT, abs=5 * (0.25 / len(every)) ** 0.5)


class SmallSan(SanText):
    """Over the same points, one group."""

    @property
    def rows(self) -> Floats:
        return np.random.default_rng(0).standard_normal((WORDS, 6)).astype(np.float32)

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        return (EVERYONE,)

    def __post_init__(self) -> None:
        every = np.arange(WORDS, dtype=np.int32)
        self.epsilon, self._outputs = 3.0, (every[10:],)
        apart = distances(self.rows, self.rows[every[10:]])
        self._log_total = (np.log(np.exp(-self.epsilon / 2 * apart).sum(axis=1)),)


EVERYONE = Candidates(np.arange(WORDS, dtype=np.int32), np.zeros(WORDS, np.float32))


def test_santext_sends_what_its_evidence_says() -> None:
    nothing: Any = None
    san = SmallSan(nothing)
    every = np.arange(WORDS, dtype=np.int32)
    shares = np.exp(san.evidence(every, EVERYONE))  # (released, true)
    assert shares[10:].sum(axis=0) == pytest.approx(1, abs=1e-4)
    n = 4_000
    ids = np.tile(np.array([3, 40], np.int32), n)  # the first is none of those released
    sent = san.send(ids, np.zeros_like(ids), np.random.default_rng(1))
    for place, word in enumerate((3, 40)):
        met = np.bincount(sent[place::2], minlength=WORDS) / n
        assert met[:10].sum() == 0
        # Five standard errors for each of 105 words: false alarm under one in 10,000 (and seeded).
        assert np.abs(met - shares[:, word])[10:].max() < 5 * (0.25 / n) ** 0.5
