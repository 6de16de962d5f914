"""The bootstrap: how far a figure would move if other items had been measured.

Why it is here: every interval of the lab is this one, 95 %, over whatever stands or falls together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

__all__ = ["Rate", "drawn", "interval", "mean"]

_RESAMPLES: Final = 1_000


def drawn(n: int, seed: int | list[int] = 0) -> NDArray[np.int64]:
    """How often each of ``n`` items is drawn, with replacement: Ints2d (resamples, n)."""
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), _RESAMPLES)


def interval(replicates: NDArray[np.floating[Any]]) -> list[float]:
    """[low, high], from a figure of every resample."""
    return [float(end) for end in np.quantile(replicates, (0.025, 0.975))]


def mean(found: NDArray[Any]) -> dict[str, Any]:
    """``mean`` and ``interval`` of Floats2d (seeds, questions), both drawn anew."""
    seeds, questions = found.shape
    by_seed = drawn(seeds, 1) @ found.astype(float) / seeds
    again = np.einsum("rq,rq->r", by_seed, drawn(questions, 2)) / questions
    return {"mean": float(found.mean()), "interval": interval(again)}


@dataclass
class Rate:
    """How many hits of how many items, document by document."""

    hits: list[int] = field(default_factory=list)
    n: list[int] = field(default_factory=list)

    def add(self, hits: int, n: int) -> None:
        """Add a document; one without any item is ignored."""
        if n:
            self.hits.append(hits)
            self.n.append(n)

    @property
    def share(self) -> float:
        """The share of hits; 0 of nothing."""
        return sum(self.hits) / max(sum(self.n), 1)

    def interval(self) -> list[float]:
        """Return [low, high], the bootstrap's over documents.

        Where all documents are alike it is Wilson's, with the number of documents.
        """
        hits, n, documents = sum(self.hits), sum(self.n), len(self.n)
        if not n:
            return [0.0, 1.0]
        if hits in (0, n):
            found = binomtest(documents if hits else 0, documents).proportion_ci(method="wilson")
            return [float(found.low), float(found.high)]
        times = drawn(documents)
        return interval((times @ np.array(self.hits)) / (times @ np.array(self.n)))
