"""The mechanisms state coverage, cost and classes. `test_guarantee` tests the promise."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest

from sottovoce.core.bundle.levels import Level
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.mechanisms import spherical
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, T2T


def test_perturb_adds_the_noise_of_its_eta_afresh_to_every_row() -> None:
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    noisy = T2T(5.0).perturb(vectors, np.random.default_rng(0), ["*"] * 3)
    assert noisy.dtype == np.float32
    assert np.array_equal(noisy, vectors + noise.draw(np.random.default_rng(0), 3, 4, 5.0))
    assert len(np.unique(noisy - vectors, axis=0)) == 3


def test_the_charge_is_eta_a_word() -> None:
    assert T2T(2.5).charge(["*"] * 4) == 10.0
    assert PCT2T(2.5, ("NOUN",)).charge([]) == 0.0
    assert T2T(2.5).eta_of("*+clitic") == 2.5


def test_what_is_covered_and_where_it_may_move() -> None:
    every, some = T2T.of(Level(1.0), ("NOUN",)), PCT2T.of(Level(1.0), ("NOUN", "OTHER"))
    assert (every.tags, some.tags) == (None, ("INTJ", "NOUN", "SYM", "X"))
    assert every.protects("DET")
    assert not some.protects("DET")
    assert some.protects("X")
    assert every.word_class("NOUN", False) == "*"
    assert every.word_class("AUX", True) == "*+clitic"
    assert some.word_class("NOUN", False) == "NOUN"
    assert some.word_class("AUX", True) == "AUX+clitic"


@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan, math.inf])
def test_eta_must_be_positive(eta: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        T2T(eta)
    assert caught.value.subject == "eta"
    assert caught.value.problem == "eta must be a positive number"
    assert caught.value.fix == "take a calibrated level"


def test_examples_in_the_docstrings() -> None:
    outcome = doctest.testmod(spherical)
    assert outcome.attempted
    assert not outcome.failed
