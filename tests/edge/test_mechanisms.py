"""The mechanisms keep d_X-privacy, and the check would notice one that does not.

Six words on the unit circle: small enough to integrate the noise over every word's cell, so that
the bound is checked on true probabilities, and the code's own draws against those.
"""

from __future__ import annotations

import doctest
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator
from scipy import integrate, stats

from sottovoce.edge import mechanisms
from sottovoce.edge.errors import InvalidInput
from sottovoce.edge.mechanisms import MECHANISMS, PCT2T, T2T, Mechanism
from sottovoce.edge.search import ExactIndex

ALPHA = 1e-3
ANGLES = np.array([0.0, 0.4, 1.1, 2.4, 3.3, 5.0])
WORDS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1).astype(np.float32)
DISTANCES = np.linalg.norm(WORDS[:, None] - WORDS[None], axis=2).astype(np.float64)
DRAWS = 400_000

Outputs = Callable[[Mechanism, int, Generator], np.ndarray]


def release(mechanism: Mechanism, word: int, random: Generator) -> np.ndarray:
    """DRAWS outputs for one word, by the code under test."""
    noisy = mechanism.perturb(np.repeat(WORDS[word : word + 1], DRAWS, axis=0), random)
    return ExactIndex(WORDS).nearest(noisy)


def among_neighbours(mechanism: Mechanism, word: int, random: Generator) -> np.ndarray:
    """The forbidden short cut: search only among the true word's three nearest."""
    noisy = mechanism.perturb(np.repeat(WORDS[word : word + 1], DRAWS, axis=0), random)
    near = np.argsort(DISTANCES[word])[:3]
    return near[ExactIndex(WORDS[near]).nearest(noisy)]


def kept_if_close(mechanism: Mechanism, word: int, random: Generator) -> np.ndarray:
    """Another: keep the word when the noisy vector lies near it."""
    noisy = mechanism.perturb(np.repeat(WORDS[word : word + 1], DRAWS, axis=0), random)
    found = ExactIndex(WORDS).nearest(noisy)
    found[np.linalg.norm(noisy - WORDS[word], axis=1) < 1.0] = word
    return found


def probabilities(eta: float) -> np.ndarray:
    """P(output | word) by integration over the cells, which are sectors of the plane."""
    borders = (ANGLES + np.append(ANGLES[1:], 2 * math.pi)) / 2
    table = np.zeros((len(ANGLES), len(ANGLES)))
    for word, (x, y) in enumerate(WORDS.astype(np.float64)):

        def density(s: float, angle: float, x: float = x, y: float = y) -> float:
            far = math.hypot(s * math.cos(angle) - x, s * math.sin(angle) - y)
            return eta**2 / (2 * math.pi) * math.exp(-eta * far) * s

        for output in range(len(ANGLES)):
            low = borders[output - 1] - (2 * math.pi if output == 0 else 0)
            table[word, output] = integrate.dblquad(
                density, low, borders[output], 0, 1 + 40 / eta, epsabs=1e-7
            )[0]
    return table


def worst_breach(counts: np.ndarray, eta: float) -> float:
    """Largest amount by which a log ratio surely exceeds eta * d; above 0 the bound is broken.

    Clopper-Pearson limits at ALPHA shared over every pair of words and output.
    """
    each = ALPHA / (2 * counts.size * len(counts))
    low = np.nan_to_num(stats.beta.ppf(each, counts, DRAWS - counts + 1))
    high = stats.beta.ppf(1 - each, counts + 1, DRAWS - counts)
    with np.errstate(divide="ignore"):
        ratio = np.log(low)[:, None, :] - np.log(high)[None, :, :]
    return float((ratio - eta * DISTANCES[:, :, None]).max())


def count(outputs: Outputs, mechanism: Mechanism) -> np.ndarray:
    random = np.random.default_rng(11)
    return np.stack(
        [np.bincount(outputs(mechanism, w, random), minlength=len(WORDS)) for w in range(6)]
    )


@pytest.mark.parametrize("eta", [1.0, 4.0])
def test_the_bound_holds_and_the_draws_follow_it(eta: float) -> None:
    exact = probabilities(eta)
    assert np.allclose(exact.sum(axis=1), 1, atol=1e-4)
    ratio = np.log(exact)[:, None, :] - np.log(exact)[None, :, :]
    assert (ratio - eta * DISTANCES[:, :, None]).max() < 1e-3
    for mechanism in (T2T(eta), PCT2T(eta, ("NOUN",))):
        counts = count(release, mechanism)
        for word in range(6):
            expected = exact[word] / exact[word].sum() * DRAWS
            assert stats.chisquare(counts[word], expected).pvalue > ALPHA / 12
        assert worst_breach(counts, eta) < 0


@pytest.mark.parametrize("short_cut", [among_neighbours, kept_if_close])
def test_looking_at_the_true_word_again_would_be_caught(short_cut: Outputs) -> None:
    assert worst_breach(count(short_cut, T2T(1.0)), 1.0) > 0


def test_noise_of_half_the_length_would_be_caught() -> None:
    assert worst_breach(count(release, T2T(4.0)), 2.0) > 0


def test_perturb_is_fresh_for_every_row() -> None:
    noisy = T2T(5.0).perturb(np.zeros((3, 4), np.float32), np.random.default_rng(0))
    assert noisy.dtype == np.float32
    assert len(np.unique(noisy, axis=0)) == 3


def test_the_guarantee_states_eta_and_its_local_bound() -> None:
    for mechanism in (T2T(12.5), PCT2T(12.5, ("NOUN", "VERB"))):
        assert mechanism.guarantee.eta == 12.5
        assert mechanism.guarantee.ldp_epsilon == 25.0
        assert "at most 2" in mechanism.guarantee.metric
        assert any("identifiers" in leak for leak in mechanism.guarantee.leaks)
    constrained = PCT2T(12.5, ("NOUN", "VERB")).guarantee
    assert "infinite across" in constrained.metric
    assert any("other parts of speech than NOUN, VERB" in leak for leak in constrained.leaks)


def test_the_charge_is_eta_a_word() -> None:
    assert T2T(2.5).charge(4) == 10.0
    assert PCT2T(2.5, ("NOUN",)).charge(0) == 0.0


def test_what_is_covered_and_where_it_may_move() -> None:
    every, some = T2T(1.0), PCT2T(1.0, ("NOUN", "AUX"))
    assert every.protects("DET")
    assert not some.protects("DET")
    assert some.protects("AUX")
    assert every.word_class("NOUN", False) == "*"
    assert every.word_class("AUX", True) == "*+clitic"
    assert some.word_class("NOUN", False) == "NOUN"
    assert some.word_class("AUX", True) == "AUX+clitic"


@pytest.mark.parametrize("eta", [0.0, -1.0, math.nan, math.inf])
def test_eta_must_be_positive(eta: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        T2T(eta)
    assert caught.value.subject == "eta"


def test_names_are_versioned() -> None:
    assert MECHANISMS == ("pct2t.v1", "t2t.v1")


def test_examples_in_the_docstrings() -> None:
    outcome = doctest.testmod(mechanisms)
    assert outcome.attempted
    assert not outcome.failed
