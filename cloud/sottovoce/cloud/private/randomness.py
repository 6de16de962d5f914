"""Chance that nobody can foresee or repeat: which examples a step sees, and the noise it gets.

Why it is here: a generator whose seed a tenant chose would tell that tenant the noise, and with it
the sum it covers. The numbers are those of `sottovoce.core.privacy.gaussian`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from sottovoce.core.privacy import gaussian
from sottovoce.core.privacy.noise import Random, SecureRandom

__all__ = ["normal", "sample"]


def normal(shape: tuple[int, ...], random: Random | None = None) -> Tensor:
    """Independent numbers from N(0, 1), Float64 ``shape``.

    Args:
        shape: of the tensor.
        random: for tests only; by default the operating system's generator.
    """
    return torch.from_numpy(gaussian.normal(math.prod(shape), random)).reshape(shape)


def sample(n: int, share: float, random: Random | None = None) -> list[int]:
    """Which of ``n`` examples a step sees: each with probability ``share``, whatever the others do.

    Poisson sampling, the one that the accountant counts on: the number of examples varies, and may
    be 0.
    """
    drawn = (random or SecureRandom()).random((n,))
    found: list[int] = np.flatnonzero(drawn < share).tolist()
    return found
