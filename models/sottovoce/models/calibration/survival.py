"""How often a word survives the noise, in closed form.

Why it is here: a word comes back as itself exactly if its noisy vector stays in its own Voronoi
cell, and along the ray in the noise's direction that cell ends at one length. Finding that length
once, by exact search, gives the word's survival at every eta, as the length of the noise is Gamma
distributed: no search is repeated.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from sottovoce.core.privacy.noise import Floats2d

__all__ = ["Survival", "cell_lengths"]

_SCORES: Final = 1 << 19
"""Scores held at once: 2 MiB, which a processor's cache holds."""


class Survival:
    """Share of words kept at an eta: the mean of P(||z|| < cell length), ||z|| ~ Gamma(r, 1/eta).

    Args:
        r: dimensions of the privacy space.
    """

    def __init__(self, r: int) -> None:
        # A table of the regularised incomplete gamma function: linear interpolation errs by 1e-7.
        self._at = np.linspace(0, r + 20 * np.sqrt(r), 20_001)
        shape = torch.full((len(self._at),), float(r), dtype=torch.float64)
        self._below: NDArray[np.float64] = torch.special.gammainc(
            shape, torch.from_numpy(self._at)
        ).numpy()

    def __call__(self, cells: NDArray[np.float64], eta: float) -> float:
        return float(np.interp(cells * eta, self._at, self._below).mean())


def cell_lengths(
    space: Floats2d,
    members: NDArray[np.int32],
    ids: NDArray[np.int32],
    directions: Floats2d,
) -> NDArray[np.float64]:
    """How far each word can move in a direction before another of its class is nearer.

    The bisector of x and y is crossed at (1 - x.y) / u.(y - x), rows having length 1.

    Args:
        space: Floats2d (words, r), rows of length 1.
        members: Ints1d, the class, ascending.
        ids: Ints1d (n,), the words that move.
        directions: Floats2d (n, r), of length 1.

    Returns:
        Floats1d (n,): 0 for a word that is not of the class, infinite where no other is ever
        nearer.
    """
    places = np.searchsorted(members, ids).clip(max=len(members) - 1)
    inside = members[places] == ids
    lengths = np.zeros(len(ids))
    # Constants go into the products as one more dimension: 1 - x.y and u.y - u.x come out whole.
    columns = np.vstack([space[members].T, np.ones((1, len(members)), np.float32)])  # (r + 1, m)
    own = space[ids]
    apart = np.hstack([-own, np.full((len(ids), 1), 1 + 1e-6, np.float32)])
    nearer = np.hstack([directions, -(directions * own).sum(axis=1, keepdims=True)])
    step = max(1, _SCORES // len(members))
    for start in range(0, len(ids), step):
        chunk = slice(start, start + step)
        ratios = nearer[chunk] @ columns  # (step, m)
        ratios /= apart[chunk] @ columns
        ratios[np.arange(len(ratios)), places[chunk]] = 0
        with np.errstate(divide="ignore"):
            lengths[chunk] = 1 / ratios.max(axis=1).astype(np.float64)
    lengths[~inside] = 0
    return lengths
