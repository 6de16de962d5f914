"""The bootstrap: how far a figure would move if other items had been measured.

Why it is here: every interval of the lab is this one, 95 %, over whatever stands or falls together.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["drawn", "interval", "mean"]

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
