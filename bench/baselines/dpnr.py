"""DPNR (Lyu et al., 2020): the device runs the backbone, and sends its embedding with noise.

Words are dropped first. The embedding is scaled to [0, 1] by its own least and largest entry.
Every entry then gets Laplace noise. The paper states the epsilon of one entry, as if another text
moved the whole vector by 1 in L1. But another text moves it by up to its width. So the epsilon of
the vector is larger by that factor. RAPT compares itself with DPNR (v1 4.4 and A.4, v2 V-F).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.random import Generator

from bench.attacks.interface import Floats
from sottovoce.models.denoiser_data import Passages

__all__ = ["DROPOUT", "noised", "shortened"]

DROPOUT: Final = 0.1
"""mu, as in RAPT."""


def shortened(passages: Passages, dropout: float, random: Generator) -> Passages:
    """Drop each token with probability ``dropout``, except the last token of a text."""
    kept = random.random(len(passages.flat)) >= dropout
    owner = np.repeat(np.arange(len(passages)), passages.lengths)
    kept[passages.ends[np.bincount(owner[kept], minlength=len(passages)) == 0] - 1] = True
    return Passages(passages.flat[kept], np.cumsum(np.bincount(owner[kept])))


def noised(rows: Floats, epsilon: float, random: Generator) -> Floats:
    """Scale rows to [0, 1], and add Laplace noise of scale 1/epsilon to every entry."""
    low, high = rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)
    scaled = (rows - low) / np.maximum(high - low, 1e-9)
    found: Floats = (scaled + random.laplace(0, 1 / epsilon, rows.shape)).astype(np.float32)
    return found
