"""How private was training at most? A lower bound on epsilon, from one run with canaries.

Why it is here: a plan says what a run *should* cost; a bug in clip, noise or sampling says nothing.
So examples are planted, each by a coin of its own, the finished adapter is asked which were there,
and who guesses too well has shown that the claim is false (Steinke, Nasr and Jagielski, 2023,
"Privacy Auditing with One (1) Training Run"). One run is enough, since every coin is a trial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

__all__ = ["CONFIDENCE", "Bound", "bound", "epsilon_at_least", "probability"]

CONFIDENCE: Final = 0.95

_SHARES: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Of the canaries that are guessed: the surest ones. Each is a test of its own, and pays for it."""

_TOLERANCE: Final = 1e-4

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bound:
    """What an audit found.

    Attributes:
        epsilon: with confidence ``confidence`` no smaller one holds; 0 where nothing was shown.
        confidence: over the coins and the training.
        canaries: coins thrown.
        guesses, right: of the test that showed most.
    """

    epsilon: float
    confidence: float
    canaries: int
    guesses: int
    right: int


def probability(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Most that P(at least ``right`` guesses are right) can be of what is (epsilon, delta)-private.

    Theorem 5.2 of the paper: each guess is right with probability e^eps / (1 + e^eps) at most,
    independently, and delta adds 2 m delta max_i P(v > Bin >= v - i) / i.

    Args:
        canaries: m, each trained on by a fair coin of its own.
        guesses: r, how many coins were guessed; the others were let be.
        right: v of them.
        epsilon, delta: claimed.
    """
    chance = 1 / (1 + math.exp(-epsilon))
    exact = float(binom.sf(right - 1, guesses, chance))
    if not delta or not right:
        return min(1.0, exact)
    below = np.cumsum(binom.pmf(right - np.arange(1, right + 1), guesses, chance))
    most = float((below / np.arange(1, right + 1)).max())
    return min(1.0, exact + 2 * canaries * delta * most)


def epsilon_at_least(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = CONFIDENCE
) -> float:
    """The largest epsilon that so many right guesses refute, rounded down; see `probability`."""

    def refuted(epsilon: float) -> bool:
        return probability(canaries, guesses, right, epsilon, delta) < 1 - confidence

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def bound(scores: Floats, planted: Bools, delta: float, confidence: float = CONFIDENCE) -> Bound:
    """Guesses the coins from how much an adapter favours each canary.

    Of the canaries with the highest scores it is guessed that they were trained on, of as many with
    the lowest that they were not, for several numbers of guesses; every number is a test, and they
    share the error that is allowed.

    Args:
        scores: Floats1d (m,), larger where the adapter looks as if it had seen the canary.
        planted: Bools1d (m,), the coins.
        delta: claimed.
        confidence: of the bound.
    """
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - confidence) / len(_SHARES)
    found = []
    for share in _SHARES:
        half = int(share * len(scores) / 2)
        out, inside = order[:half], order[len(order) - half :]
        right = int((~planted[out]).sum() + planted[inside].sum())
        epsilon = epsilon_at_least(len(scores), 2 * half, right, delta, each)
        found.append(Bound(epsilon, confidence, len(scores), 2 * half, right))
    return max(found, key=lambda shown: shown.epsilon)
