"""Chance that nobody can foresee or repeat: which examples a step sees, and the noise it gets.

Why it is here: a generator whose seed a tenant chose would tell that tenant the noise, and with it
the sum it covers. And the floating-point numbers that one transformation of uniform numbers can
reach are so few that the lowest bits of a noisy sum give away what was added to (Mironov, 2012).
The mean of four such draws, doubled, has the same distribution, and to find the four is as hard as
2**318 steps (Holohan and Braghin, 2021).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.core.privacy.noise import Random, SecureRandom

__all__ = ["normal", "sample"]

_SUMMED: Final = 4
"""Draws that make one; their sum is divided by its square root."""

_AT_ONCE: Final = 1 << 18
"""Numbers made at once: 8 MiB of uniform ones."""


def normal(shape: tuple[int, ...], random: Random | None = None) -> Tensor:
    """Independent numbers from N(0, 1), Float ``shape``, drawn in float64 and rounded once.

    Args:
        shape: of the tensor.
        random: for tests only; by default the operating system's generator.
    """
    stream = random or SecureRandom()
    n = math.prod(shape)
    made = np.empty(n, np.float32)
    for start in range(0, n, _AT_ONCE):
        chunk = made[start : start + _AT_ONCE]
        chunk[:] = _gaussian(stream, len(chunk))
    return torch.from_numpy(made).reshape(shape)


def sample(n: int, share: float, random: Random | None = None) -> list[int]:
    """Which of ``n`` examples a step sees: each with probability ``share``, whatever the others do.

    Poisson sampling, the one that the accountant counts on: the number of examples varies, and may
    be 0.
    """
    drawn = (random or SecureRandom()).random((n,))
    found: list[int] = np.flatnonzero(drawn < share).tolist()
    return found


def _gaussian(random: Random, n: int) -> NDArray[np.float64]:
    """Box and Muller's, each the sum of four; 1 - u is never 0, so no logarithm is infinite."""
    pairs = (_SUMMED, (n + 1) // 2)
    length = np.sqrt(-2.0 * np.log1p(-random.random(pairs)))
    angle = 2.0 * np.pi * random.random(pairs)
    both = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)[:, :n]
    summed: NDArray[np.float64] = both.sum(axis=0) / math.sqrt(_SUMMED)
    return summed
