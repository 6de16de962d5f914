"""The d_X bound holds on true probabilities, and the same checks catch each breach.

Seven words lie on the unit circle, three close together. In the plane the probability of each
output is an exact integral; the code's draws are compared with it. Draws are seeded; each test
would fail a right mechanism at most once in 1,000 seeds.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import special, stats

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, PCT2T2, T2T, Mechanism
from sottovoce.core.privacy.noise import Random
from sottovoce.core.privacy.privatizer import Privatizer, Setting
from sottovoce.core.privacy.search import ExactIndex, HnswIndex
from sottovoce.core.privacy.vectors import Vectors
from tests.support.small_bundle import MECHANISMS, LexiconTagger

ALPHA = 1e-3
DRAWS = 200_000
CLASS = "="
DIRECTIONS = 40_000
ERROR = 5e-4
"""Of a log probability: `test_the_integral_has_converged`."""

ANGLES = np.array([0.0, 0.02, 0.04, 1.1, 2.4, 3.3, 5.0])


def on_circle(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def between(words: np.ndarray) -> np.ndarray:
    """Distances (n, n)."""
    return np.linalg.norm(words[:, None].astype(np.float64) - words[None], axis=2)


WORDS = on_circle(ANGLES)
DISTANCES = between(WORDS)

Beyond = Callable[[np.ndarray], np.ndarray]
Outputs = Callable[[Mechanism, int, Random], np.ndarray]


def on_sphere(eta: float) -> Beyond:
    """P(noise is longer than l) in the plane as it must be: of Gamma(2, 1/eta)."""
    return stats.gamma(2, scale=1 / eta).sf


def in_ball(eta: float) -> Beyond:
    """The same with the direction from the unit ball, as the papers' wording has it.

    The length is shortened by the root of a uniform number; its density in the plane becomes
    eta^2 / pi * E1(eta * l), with E1 the exponential integral, infinite at 0.
    """

    def beyond(length: np.ndarray) -> np.ndarray:
        t = np.clip(eta * length, 1e-100, 700.0)
        return (1 + t) * np.exp(-t) - t**2 * special.exp1(t)

    return beyond


def probabilities(beyond: Beyond, words: np.ndarray, directions: int = DIRECTIONS) -> np.ndarray:
    """P(output | word), (words, words): the noise integrated over the cell of each output.

    Cells are convex, so a ray from a word crosses each in one piece, from a to b, and the noise
    falls there with probability P(> a) - P(> b). What remains is the mean over all directions.
    """
    words = words.astype(np.float64)
    angles = (np.arange(directions) + 0.5) * 2 * math.pi / directions
    rays = np.stack([np.cos(angles), np.sin(angles)])
    table = np.empty((len(words), len(words)))
    for output, own in enumerate(words):
        others = np.delete(words, output, axis=0)
        normals = own - others  # the cell is where normals @ z >= offsets
        offsets = (own @ own - (others**2).sum(axis=1)) / 2
        slopes = normals @ rays
        for word, start in enumerate(words):
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = (offsets - normals @ start)[:, None] / slopes
            enter = np.where(slopes > 0, crossing, 0).max(axis=0, initial=0)
            leave = np.maximum(np.where(slopes < 0, crossing, np.inf).min(axis=0), enter)
            table[word, output] = (beyond(enter) - beyond(leave)).mean()
    return table


def breach(table: np.ndarray, eta: float, distances: np.ndarray = DISTANCES) -> float:
    """Largest excess of a log ratio over eta * d, over all pairs of words and all outputs."""
    ratio = np.log(table)[:, None, :] - np.log(table)[None, :, :]
    two = ~np.eye(len(table), dtype=bool)
    return float((ratio - eta * distances[:, :, None])[two].max())


def sure_breach(counts: np.ndarray, eta: float, distances: np.ndarray = DISTANCES) -> float:
    """Return a lower bound of the log ratio's excess from ``counts`` (words, outputs).

    Clopper-Pearson limits at ALPHA, shared over every pair of words and output.
    """
    draws = counts.sum(axis=1, keepdims=True)
    each = ALPHA / (2 * counts.size * len(counts))
    low = np.nan_to_num(stats.beta.ppf(each, counts, draws - counts + 1))
    high = np.nan_to_num(stats.beta.ppf(1 - each, counts + 1, draws - counts), nan=1.0)
    with np.errstate(divide="ignore"):
        ratio = np.log(low)[:, None, :] - np.log(high)[None, :, :]
    return float((ratio - eta * distances[:, :, None]).max())


def noisy(mechanism: Mechanism, word: int, random: Random) -> np.ndarray:
    rows = np.repeat(WORDS[word : word + 1], DRAWS, axis=0)
    return mechanism.perturb(rows, random, [CLASS] * DRAWS)


def released(mechanism: Mechanism, word: int, random: Random) -> np.ndarray:
    """DRAWS outputs for one word, by the code under test."""
    return ExactIndex(WORDS).nearest(noisy(mechanism, word, random))


def among_neighbours(mechanism: Mechanism, word: int, random: Random) -> np.ndarray:
    """Forbidden: candidates are the true word's three nearest."""
    near = np.argsort(DISTANCES[word])[:3]
    return near[ExactIndex(WORDS[near]).nearest(noisy(mechanism, word, random))]


def walk_from_the_word(mechanism: Mechanism, word: int, random: Random) -> np.ndarray:
    """Forbidden: a graph search of some steps that enters at the true word."""
    at = np.full(DRAWS, word)
    target = noisy(mechanism, word, random)
    for _ in range(2):
        steps = np.stack([at, (at + 1) % len(WORDS), (at - 1) % len(WORDS)], axis=1)
        far = np.linalg.norm(WORDS[steps] - target[:, None], axis=2)
        at = steps[np.arange(DRAWS), far.argmin(axis=1)]
    return at


def kept_if_close(mechanism: Mechanism, word: int, random: Random) -> np.ndarray:
    """Forbidden: the word stays when the noisy vector lies near it."""
    target = noisy(mechanism, word, random)
    found = ExactIndex(WORDS).nearest(target)
    found[np.linalg.norm(target - WORDS[word], axis=1) < 1.0] = word
    return found


def count(outputs: Outputs, mechanism: Mechanism, seed: int = 11) -> np.ndarray:
    random = np.random.default_rng(seed)
    words = range(len(WORDS))
    return np.stack(
        [np.bincount(outputs(mechanism, w, random), minlength=len(WORDS)) for w in words]
    )


def test_the_integral_has_converged() -> None:
    for law in (on_sphere(0.5), on_sphere(20.0), in_ball(1.0), in_ball(20.0)):
        fine, coarse = (probabilities(law, WORDS, n) for n in (DIRECTIONS, DIRECTIONS // 4))
        assert np.allclose(fine.sum(axis=1), 1, atol=ERROR)
        assert np.abs(np.log(fine) - np.log(coarse)).max() < ERROR


@pytest.mark.parametrize("eta", [0.5, 1.0, 4.0, 20.0])
def test_the_bound_holds_on_true_probabilities(eta: float) -> None:
    table = probabilities(on_sphere(eta), WORDS)
    assert breach(table, eta) < ERROR
    # The check is no formality: the same noise breaks the bound of three quarters of eta.
    assert breach(table, 0.75 * eta) > ERROR


@pytest.mark.parametrize(
    "mechanism",
    [T2T(1.0), PCT2T(4.0, ("NOUN",)), PCT2T2(9.0, (), {"=NOUN": 2.0, CLASS: 4.0})],
)
def test_draws_follow_the_true_probabilities(mechanism: Mechanism) -> None:
    eta = mechanism.eta_of(CLASS)
    table, counts = probabilities(on_sphere(eta), WORDS), count(released, mechanism)
    for true, drawn in zip(table, counts, strict=True):
        assert stats.chisquare(drawn, true / true.sum() * DRAWS).pvalue > ALPHA / len(WORDS)
    assert sure_breach(counts, eta) < 0


def test_a_graph_that_often_misses_keeps_the_bound() -> None:
    """Search after the noise is post-processing, however poor."""
    pytest.importorskip("hnswlib", reason="graphs need the extra `graph` (hnswlib)")
    words = on_circle(np.linspace(0, 2 * math.pi, 200, endpoint=False))
    poor = HnswIndex.build(words, ef=1, links=2, construction=2)

    some, mechanism, random = [0, 1, 3, 10, 60], T2T(3.0), np.random.default_rng(5)
    found = []
    for word in some:
        queries = mechanism.perturb(
            np.repeat(words[word : word + 1], 50_000, axis=0), random, [CLASS] * 50_000
        )
        found.append(poor.nearest(queries))
        if word == 0:
            assert np.mean(found[0] == ExactIndex(words).nearest(queries)) < 0.9
    counts = np.stack([np.bincount(each, minlength=len(words)) for each in found])
    assert sure_breach(counts, 3.0, between(words[some])) < 0


@pytest.mark.parametrize("short_cut", [among_neighbours, walk_from_the_word, kept_if_close])
def test_looking_at_the_true_word_again_would_be_caught(short_cut: Outputs) -> None:
    assert sure_breach(count(short_cut, T2T(1.0)), 1.0) > 0


def test_noise_of_half_the_length_would_be_caught() -> None:
    assert sure_breach(count(released, T2T(4.0)), 2.0) > 0


@pytest.mark.parametrize("eta", [1.0, 4.0, 20.0])
def test_a_direction_from_the_ball_would_be_caught_on_words(eta: float) -> None:
    assert breach(probabilities(in_ball(eta), WORDS), eta) > 1e-3


def drawn_in_ball(random: Random, n: int, eta: float) -> np.ndarray:
    """The ball's noise, from the code's own and a shortening."""
    noise = T2T(eta).perturb(np.zeros((n, 2), np.float32), random, [CLASS] * n)
    return noise * np.sqrt(random.random((n, 1)))


def test_the_balls_law_is_what_the_ball_draws() -> None:
    lengths = np.linalg.norm(drawn_in_ball(np.random.default_rng(3), DRAWS, 2.0), axis=1)
    assert stats.kstest(lengths, lambda x: 1 - in_ball(2.0)(x)).pvalue > ALPHA
    assert stats.kstest(lengths, lambda x: 1 - on_sphere(2.0)(x)).pvalue < ALPHA


def test_a_ball_has_no_finite_bound_and_the_sphere_keeps_eta() -> None:
    """Two words with eta * d = 0.1: counts noisy vectors in a small disc around the first."""
    eta, apart, disc, draws = 1.0, 0.1, 0.02, 1_000_000
    random = np.random.default_rng(4)

    def counts(noise: np.ndarray) -> np.ndarray:
        inside = [np.linalg.norm(noise - (x, 0), axis=1) < disc for x in (0.0, apart)]
        return np.array([[each.sum(), draws - each.sum()] for each in inside])

    distances = np.array([[0, apart], [apart, 0]])
    sphere = T2T(eta).perturb(np.zeros((draws, 2), np.float32), random, [CLASS] * draws)
    assert sure_breach(counts(sphere), eta, distances) < 0
    assert sure_breach(counts(drawn_in_ball(random, draws, eta)), eta, distances) > 3 * eta * apart

    # And so on without end: each disc a thousandth as wide adds ln 1000 to the ratio of densities.
    discs = 10.0 ** -np.arange(3, 100, 3)
    ratio = special.exp1(eta * discs) / special.exp1(eta * apart)
    growth = math.log(1_000) / special.exp1(eta * apart)
    assert np.allclose(np.diff(ratio), growth, rtol=1e-3)


def outputs_of(
    release: Callable[[str], Sequence[str]], words: Sequence[str]
) -> tuple[np.ndarray, list[str]]:
    """How often each output takes the place of each of ``words``: counts (words, outputs)."""
    lists = [release(word) for word in words]
    listed = sorted({output for each in lists for output in each})
    number = {output: place for place, output in enumerate(listed)}
    counts = [np.bincount([number[o] for o in each], minlength=len(listed)) for each in lists]
    return np.stack(counts), listed


def test_an_unknown_word_passed_through_would_be_caught(
    small_bundle: Bundle,
) -> None:
    """The whole engine: words in the bundle's list keep the bound, words that are not tell nothing
    of each other at all."""
    listed_words, others = ("letter", "river", "garden"), ("zyzzyva", "qwertyish")
    draws, eta = 5_000, 1.0
    level = dataclasses.replace(small_bundle.manifest.level("t2t.v1", "strong"), eta=eta)
    manifest = dataclasses.replace(
        small_bundle.manifest, calibration={name: {"one": level} for name in MECHANISMS}
    )
    bundle = Bundle(small_bundle.folder, manifest, "0")
    engine = Privatizer(bundle, tagger=LexiconTagger)
    random = np.random.default_rng(6)
    distances = between(Vectors(bundle).lookup(listed_words)[0])

    for mechanism in MECHANISMS:

        def release(word: str, mechanism: str = mechanism) -> Sequence[str]:
            setting = Setting("one", mechanism)
            return engine.release(" ".join([word] * draws), setting, random).text.split()

        counts, _ = outputs_of(release, listed_words)
        assert sure_breach(counts, eta, distances) < 0

        def alone(word: str, mechanism: str = mechanism) -> Sequence[str]:
            """Once a document: within one a word that is drawn has one surrogate."""
            setting = Setting("one", mechanism)
            return [engine.release(word, setting, random).text for _ in range(500)]

        counts, listed = outputs_of(alone, others)
        assert not set(others) & set(listed)
        assert sure_breach(counts, 0.0, np.zeros((2, 2))) < 0

        def pass_through(word: str, alone: Callable[[str], Sequence[str]] = alone) -> Sequence[str]:
            return alone(word) if word != others[0] else [word] * 500

        counts, _ = outputs_of(pass_through, others)
        assert sure_breach(counts, 0.0, np.zeros((2, 2))) > 0
