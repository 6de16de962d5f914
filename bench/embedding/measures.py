"""What `bench.embedding` measures with: attacks, mutual information, small heads, costs.

Not a benchmark by itself: each function is one column of its tables.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.stats import mannwhitneyu

from sottovoce.cloud.corpus.running_text import draw
from sottovoce.cloud.models.posterior import PosteriorMean
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.edge.measure.classifier import Head

__all__ = [
    "Mechanism",
    "attacks",
    "difference",
    "eta_for",
    "head",
    "milliseconds",
    "mutual_information",
]

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Mechanism:
    """Noise on token vectors: in the privacy space, or as published over the full width.

    Attributes:
        name: for the tables.
        rows: Floats2d (tokens, d), where the noise is added.
        posterior: of the cloud, and of the attacker.
        log_prior: Floats1d (tokens,).
    """

    name: str
    rows: Floats
    posterior: PosteriorMean
    log_prior: Floats

    def noisy(self, ids: NDArray[np.int32], eta: float, random: np.random.Generator) -> Floats:
        """What the tokens become: Floats2d (n, d)."""
        found: Floats = self.rows[ids] + noise.draw(random, len(ids), self.rows.shape[1], eta)
        return found

    def sample(self, n: int) -> NDArray[np.int32]:
        """About ``n`` tokens of running text."""
        shares = np.exp(self.log_prior.astype(np.float64))
        return draw({"": shares}, n, np.random.default_rng(0))[""]


def eta_for(mechanism: Mechanism, successes: Sequence[float], draws: int = 1_000) -> list[float]:
    """The etas at which the MAP attacker recovers these shares of the tokens."""
    ids = mechanism.sample(draws)
    spread = np.linalg.norm(mechanism.rows[ids] - mechanism.rows[np.roll(ids, draws // 2)], axis=1)
    grid = np.geomspace(0.1, 6, 14) * mechanism.rows.shape[1] / float(spread.mean())
    reached = []
    for eta in grid.tolist():
        noisy = mechanism.noisy(ids, eta, np.random.default_rng(1))
        reached.append(float(mechanism.posterior.confidence(noisy, eta).mean()))
        if reached[-1] > max(successes):
            break
    rising = np.maximum.accumulate(reached)
    logs = np.interp(successes, rising, np.log(grid[: len(rising)]))
    return [float(eta) for eta in np.exp(logs)]


def attacks(mechanism: Mechanism, eta: float, draws: int = 2_000) -> dict[str, float]:
    """Shares of the tokens of running text recovered from the noisy vectors.

    ``nearest`` is the papers' attacker (SnD, eq. 14), ``rescaled`` looks at directions
    only, ``map`` knows token frequencies and eta.
    """
    ids = mechanism.sample(draws)
    noisy = mechanism.noisy(ids, eta, np.random.default_rng(2))
    rows = mechanism.rows
    unit = unit_rows(rows)
    guesses = {
        "nearest": _nearest(rows, noisy),
        "rescaled": _nearest(unit, noisy),
        "map": mechanism.posterior.most_probable(noisy, eta).numpy(),
    }
    return {name: float((guess == ids).mean()) for name, guess in guesses.items()}


def _nearest(rows: Floats, seen: Floats) -> NDArray[np.int64]:
    squares = np.square(rows).sum(axis=1)
    chunks = np.array_split(seen, max(1, len(seen) // 200))
    return np.concatenate([(squares - 2 * chunk @ rows.T).argmin(axis=1) for chunk in chunks])


def mutual_information(mechanism: Mechanism, eta: float, draws: int = 2_000, k: int = 3) -> float:
    """I(X; X~) in nats after Kozachenko and Leonenko (SnD, eq. 13 and 22), never below 0.

    The estimate takes tokens for a continuum: where noise is short it exceeds what a token's
    identity can hold, and is then no more than an ordering.
    """
    ids = mechanism.sample(draws)
    d = mechanism.rows.shape[1]
    steps = noise.draw(np.random.default_rng(3), len(ids), d, eta)

    def mean_log_distance(points: Floats) -> float:
        distances, _ = cKDTree(points).query(points, k=k + 1)
        return float(np.log(np.maximum(distances[:, k], 1e-12)).mean())

    found = d * (mean_log_distance(mechanism.rows[ids] + steps) - mean_log_distance(steps))
    return max(0.0, float(found))


def difference(
    ours: NDArray[np.floating[Any]], other: NDArray[np.floating[Any]], draws: int = 2_000
) -> tuple[float, float, float]:
    """Mean of ``ours - other`` over sentences, with its 95 % bootstrap interval."""
    gains = ours - other
    random = np.random.default_rng(0)
    means = [gains[random.integers(0, len(gains), len(gains))].mean() for _ in range(draws)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(gains.mean()), float(low), float(high)


def head(
    train: Floats, labels: NDArray[np.int64], test: Floats, wanted: NDArray[np.int64]
) -> tuple[float, float]:
    """Accuracy and AUC of the device's two-layer classifier, on embeddings like those it learnt
    from."""
    scores = Head.fit(train, [str(label) for label in labels]).scores(test)[:, 1]
    positive, negative = scores[wanted == 1], scores[wanted == 0]
    wins = mannwhitneyu(positive, negative).statistic
    return float(((scores > 0.5) == wanted).mean()), float(wins / (len(positive) * len(negative)))


def milliseconds(runs: Mapping[str, Callable[[], object]], repeats: int = 25) -> dict[str, float]:
    """Median wall clock of each, interleaved in random order; the first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    order = np.random.default_rng(0)
    for repeat in range(repeats + 1):
        for name in order.permutation([*runs]).tolist():  # each follows every other
            start = time.perf_counter()
            runs[name]()
            if repeat:
                taken[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(times) for name, times in taken.items()}
