"""Gaussian mechanisms: a budget, steps that spend it, their noise, and their total cost.

Private training in the cloud and teachers' votes on the device use the same noise. Both promise
(epsilon, delta)-differential privacy. A step's noise and its price are read from one `Stage`, so
they cannot disagree. The price of steps on all records is exact and in closed form (Balle and Wang,
2018, theorem 8): together, the steps cost as much as one step with less noise.

The noise cannot be predicted or repeated. One transformation of uniform numbers reaches few
floating-point numbers, so the lowest bits of a noisy sum reveal the original sum (Mironov, 2012).
The mean of four draws, doubled, has the same distribution. Finding the four draws takes about
2**318 steps (Holohan and Braghin, 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.noise import Random, SecureRandom

RELATION: Final = "one uploaded example added or removed"

_SUMMED: Final = 4
"""Draws summed into one; the sum is divided by the square root of this number."""

_AT_ONCE: Final = 1 << 18
"""Numbers drawn at once: 8 MiB of uniform numbers."""

_NOISIEST: Final = 1_000.0
_TOLERANCE: Final = 1e-3
"""Relative amount by which a noise multiplier is rounded up."""

_EXACT: Final = 1e-9
"""Relative amount by which an epsilon is rounded up."""

_FAR: Final = -25.0
"""Below this many deviations, the tail of the normal distribution is computed by a series."""


def usual_delta(records: int) -> float:
    """Return the default delta, far below one in ``records``."""
    return min(1e-5, 1 / (10 * records))


@dataclass(frozen=True, slots=True)
class Budget:
    """(epsilon, delta)-differential privacy.

    Raises:
        InvalidInput: not positive and finite, or a delta of 1 or more.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(
                "epsilon must be a positive number",
                fix="give one from 0.1 to 10: the smaller, the stronger",
                subject="dp_epsilon",
            )
        if not 0 < self.delta < 1:
            raise InvalidInput(
                "delta is out of range",
                fix="leave it out, or give far less than one in the number of examples",
                subject="dp_delta",
            )

    @classmethod
    def of(cls, epsilon: float, delta: float, records: int) -> Budget:
        """Return a budget for ``records`` records; a ``delta`` of 0 takes the usual delta.

        Raises:
            InvalidInput: see `Budget`; or a delta that would allow whole examples to be published.
        """
        budget = cls(epsilon, delta or usual_delta(records))
        if budget.delta > 1 / records:
            raise InvalidInput(
                "delta is larger than one in the number of examples: it would permit to give "
                "single examples away",
                fix=f"leave it out, or give at most {usual_delta(records):.1g}",
                subject="dp_delta",
            )
        return budget


@dataclass(frozen=True, slots=True)
class Stage:
    """A number of identical steps.

    Attributes:
        steps: how many.
        share: probability that a record is in a step; 1 if every step uses all records.
        noise: standard deviation of the noise on the published sum, in units of ``clip``.
        clip: the largest change that one record can make to the sum.
    """

    steps: int
    share: float
    noise: float
    clip: float


def epsilon_of_whole(stages: tuple[Stage, ...], delta: float) -> float:
    """Return the epsilon that all steps of ``stages`` spend together.

    Every step must use every record.

    Raises:
        ValueError: a stage uses a sample of the records.
    """
    if any(stage.share != 1 for stage in stages):
        raise ValueError("steps on samples have no closed form")
    moved = math.sqrt(sum(stage.steps / stage.noise**2 for stage in stages))
    low, high = 0.0, 1.0
    while _delta_at(high, moved) > delta:
        low, high = high, 2 * high
    while high - low > _EXACT * high:
        middle = (low + high) / 2
        if _delta_at(middle, moved) > delta:
            low = middle
        else:
            high = middle
    return high


def _delta_at(epsilon: float, moved: float) -> float:
    """Return delta at ``epsilon`` for noise of 1 on a sum that a record moves by ``moved``."""
    near = _log_below(moved / 2 - epsilon / moved)
    far = epsilon + _log_below(-moved / 2 - epsilon / moved)
    return math.exp(near) * -math.expm1(min(far - near, 0.0))


def _log_below(x: float) -> float:
    """Return the logarithm of the chance that a number from N(0, 1) is below ``x``."""
    if x > _FAR:
        return math.log(math.erfc(-x / math.sqrt(2)) / 2)
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6
    return -(x**2) / 2 - math.log(-x * math.sqrt(2 * math.pi)) + math.log(series)


def with_least_noise(
    stages: Callable[[float], tuple[Stage, ...]],
    budget: Budget,
    cost: Callable[[tuple[Stage, ...], float], float] = epsilon_of_whole,
) -> float:
    """Return the smallest noise multiplier at which ``stages`` keep within a budget.

    Args:
        stages: returns the stages for a noise multiplier.
        cost: returns the epsilon of stages at a delta.

    Raises:
        InvalidInput: no noise multiplier keeps within the budget.
    """

    def spent(noise: float) -> float:
        return cost(stages(noise), budget.delta)

    enough = 1.0
    while spent(enough) > budget.epsilon:
        enough *= 2
        if enough > _NOISIEST:
            raise InvalidInput(
                "epsilon is too small for so many steps",
                fix="give a larger one",
                subject="dp_epsilon",
            )
    while spent(enough / 2) <= budget.epsilon:
        enough /= 2
    short = enough / 2
    while enough / short > 1 + _TOLERANCE:
        middle = math.sqrt(short * enough)
        if spent(middle) > budget.epsilon:
            short = middle
        else:
            enough = middle
    return enough


def normal(n: int, random: Random | None = None) -> NDArray[np.float64]:
    """Return ``n`` independent numbers from N(0, 1).

    Args:
        n: how many.
        random: for tests only; by default the operating system's generator.
    """
    stream = random or SecureRandom()
    made = np.empty(n)
    for start in range(0, n, _AT_ONCE):
        chunk = made[start : start + _AT_ONCE]
        chunk[:] = _drawn(stream, len(chunk))
    return made


def _drawn(random: Random, n: int) -> NDArray[np.float64]:
    """Draw by Box and Muller's method, each number a sum of four.

    1 - u is never 0, so no logarithm is infinite.
    """
    pairs = (_SUMMED, (n + 1) // 2)
    length = np.sqrt(-2.0 * np.log1p(-random.random(pairs)))
    angle = 2.0 * np.pi * random.random(pairs)
    both = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)[:, :n]
    summed: NDArray[np.float64] = both.sum(axis=0) / math.sqrt(_SUMMED)
    return summed
