"""The attacker on noisy vectors guesses as its definition says."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.core.privacy.attacker import Candidates, SphereMap, perturb
from sottovoce.core.privacy.noise import Floats2d


@pytest.fixture
def space() -> Floats2d:
    rows = np.random.default_rng(1).standard_normal((300, 8)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def weights() -> np.ndarray:
    return np.random.default_rng(2).zipf(1.6, 300).clip(max=5_000).astype(np.float64)


def test_candidates_are_the_class_and_whoever_was_met_in_it() -> None:
    met = np.zeros(300)
    met[[3, 40]] = 7, 2
    candidates = Candidates.of(met, np.array([40, 41], np.int32))

    assert candidates.ids.tolist() == [3, 40, 41]
    shares = np.array([7.5, 2.5, 0.5]) / 10.5
    np.testing.assert_allclose(np.exp(candidates.log_prior), shares, rtol=1e-6)


@pytest.mark.parametrize("eta", [2.0, 10.0, 60.0])
def test_guesses_match_the_definition(space: Floats2d, weights: np.ndarray, eta: float) -> None:
    members = np.arange(0, 300, 2, dtype=np.int32)
    known = np.where(np.isin(np.arange(300), members), weights, 0)
    attacker = SphereMap.of(space, Candidates.of(known, members))
    noisy = perturb(space[members], eta, np.random.default_rng(4))

    best = []
    for q in noisy.astype(np.float64):
        distance = np.linalg.norm(space[members].astype(np.float64) - q, axis=1)
        best.append(members[np.argmax(np.log(weights[members] + 0.5) - eta * distance)])
    assert (attacker.behind_vectors(noisy, eta) == best).mean() > 0.99  # but for ties in float32


@pytest.mark.parametrize("eta", [2.0, 20.0, 60.0])
def test_guesses_among_many_words_that_were_never_met(eta: float) -> None:
    random = np.random.default_rng(5)
    rows = random.standard_normal((12_000, 8)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    met = np.where(random.random(len(rows)) < 0.2, random.zipf(1.6, len(rows)).clip(max=5_000), 0)
    candidates = Candidates.of(met.astype(float), np.arange(len(rows), dtype=np.int32))
    common = np.argsort(-met)[:50]
    noisy = perturb(rows[np.concatenate([common, random.choice(len(rows), 100)])], eta, random)

    distances = np.linalg.norm(rows.astype(float) - noisy[:, None].astype(float), axis=2)
    best = (np.log(met + 0.5) - eta * distances).argmax(axis=1)
    attacker = SphereMap.of(rows, candidates)
    assert (attacker.behind_vectors(noisy, eta) == best).mean() > 0.99  # but for ties in float32
    slower, asked = attacker.behind_words(noisy, eta / 2, eta)
    assert (asked == best).mean() > 0.99
    assert (slower != asked).any()
