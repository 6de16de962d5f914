"""Draws the noise that makes a word deniable.

The guarantee depends on two details that are easy to get wrong:

- The direction is uniform on the unit *sphere*. The papers write "ball", but its extra shortening
  leaves no finite eta near zero.
- The stream is cryptographic. An ordinary generator can be predicted and the noise subtracted.
"""

from __future__ import annotations

import math
import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats2d", "Random", "SecureRandom", "draw"]

Floats2d = NDArray[np.float32]
"""Rows of vectors; the shape stands beside each use, as in ``Floats2d (n_words, r)``."""


class Random(Protocol):
    """A stream of uniform numbers; tests pass a seeded ``numpy.random.Generator``."""

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """Independent and uniform on [0, 1), with 53 bits."""


class SecureRandom:
    """Uniform numbers straight from the operating system's generator (getrandom(2)).

    The kernel's ChaCha20 erases its key after every answer. So there is no key to change between
    documents, to guard, or to inherit over a fork. It also saves the 12 MB of a library of
    generators.
    """

    def random(self, size: tuple[int, ...]) -> NDArray[np.float64]:
        """See `Random.random`."""
        bits = np.frombuffer(os.urandom(8 * math.prod(size)), np.uint64).reshape(size)
        return (bits >> np.uint64(11)) * np.float64(2.0**-53)


def draw(random: Random, n: int, r: int, eta: float | NDArray[np.float64]) -> Floats2d:
    """``n`` independent vectors of density proportional to ``exp(-eta * ||z||)``.

    RAPT v1 section 3.1 and RAPT v2 section III-A1: ``z = l * v`` with the length ``l`` from
    Gamma(r, 1/eta), the sum of r exponentials, and the direction ``v`` uniform on the unit sphere,
    a normalised Gaussian (Box and Muller's).

    Args:
        random: where the bits come from; `SecureRandom` outside of tests.
        n: how many vectors.
        r: their dimension, that of the privacy space.
        eta: the privacy parameter, in units of 1 / distance, one for all or Floats1d (n,); the mean
            length is ``r / eta``.

    Returns:
        Floats2d (n, r); drawn in float64 and rounded once.
    """
    # 1 - u is never 0, so no logarithm is infinite.
    length = np.log1p(-random.random((n, r))).sum(axis=1, keepdims=True)
    length /= -np.reshape(eta, (-1, 1))
    pairs = (r + 1) // 2
    spread = np.sqrt(-2.0 * np.log1p(-random.random((n, pairs))))
    angle = 2.0 * np.pi * random.random((n, pairs))
    direction = np.hstack([spread * np.cos(angle), spread * np.sin(angle)])[:, :r]
    direction *= length / np.linalg.norm(direction, axis=1, keepdims=True)
    return direction.astype(np.float32)
