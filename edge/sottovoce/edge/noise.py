"""Draws the noise that makes a word deniable; nothing else in Sottovoce draws any.

Why it is here: the guarantee stands or falls with two details that are easy to get wrong. The
direction is uniform on the unit *sphere* (the papers write "ball", whose extra shortening leaves no
finite eta near zero), and the stream is cryptographic, because whoever predicts the next draw of an
ordinary generator subtracts the noise.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from randomgen import AESCounter

__all__ = ["Floats2d", "draw", "secure_random"]

Floats2d = NDArray[np.float32]
"""Rows of vectors; the shape stands beside each use, as in ``Floats2d (n_words, r)``."""


def secure_random() -> Generator:
    """A generator over AES-128 in counter mode, with a fresh key from the operating system.

    Take a new one for each document: a key that leaks then opens one document, not the next.
    """
    return Generator(AESCounter(key=secrets.randbits(128)))


def draw(random: Generator, n: int, r: int, eta: float) -> Floats2d:
    """``n`` independent vectors of density proportional to ``exp(-eta * ||z||)``.

    RAPT v1 section 3.1 and RAPT v2 section III-A1: ``z = l * v`` with the length ``l`` from
    Gamma(r, 1/eta) and the direction ``v`` uniform on the unit sphere (a normalised Gaussian).

    Args:
        random: where the bits come from; `secure_random` outside of tests.
        n: how many vectors.
        r: their dimension, that of the privacy space.
        eta: the privacy parameter, in units of 1 / distance; the mean length is ``r / eta``.

    Returns:
        Floats2d (n, r); drawn in float64 and rounded once.
    """
    length = random.gamma(r, 1.0 / eta, size=(n, 1))
    direction = random.standard_normal((n, r))
    direction *= length / np.linalg.norm(direction, axis=1, keepdims=True)
    return direction.astype(np.float32)
