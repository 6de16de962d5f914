"""The privacy spaces that `bench.space` compares, from the published one to ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.cloud.building import space
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import unit_rows

__all__ = ["OURS", "PREVIOUS", "Space", "Words", "ablations", "sweep"]

_PRINCIPAL: Final = 1e6
"""A ridge so large that only the spread of words counts."""


@dataclass(frozen=True)
class Words:
    """What a space is made from: see `sottovoce.cloud.building.space`. ``moved`` are the counts
    with infinity for clitics, which stay where they are."""

    embeddings: Floats2d
    counts: NDArray[np.float64]
    moved: NDArray[np.float64]
    near: NDArray[np.int32]


@dataclass(frozen=True)
class Space:
    """A construction by name.

    Attributes:
        name: as the table has it.
        r: dimensions; 0 for the full width.
        make: words, r -> Floats2d (words, r).
    """

    name: str
    r: int
    make: Callable[[Words, int], Floats2d]

    def rows(self, words: Words) -> Floats2d:
        """The words in this space."""
        return self.make(words, self.r or words.embeddings.shape[1])


def _ours(
    exponent: float = space.EXPONENT,
    ridge: float = space.RIDGE,
    shrinkage: float = space.SHRINKAGE,
) -> Callable[[Words, int], Floats2d]:
    def make(words: Words, r: int) -> Floats2d:
        projection = space.fit(
            words.embeddings, words.counts, words.near, r, exponent=exponent, ridge=ridge
        )
        projected = projection(words.embeddings)
        return space.place(projected, words.moved, words.near, shrinkage=shrinkage)

    return make


def _principal(exponent: float) -> Callable[[Words, int], Floats2d]:
    """Principal components as they are: rows of many lengths."""

    def make(words: Words, r: int) -> Floats2d:
        projection = space.fit(
            words.embeddings, words.counts, words.near, r, exponent=exponent, ridge=_PRINCIPAL
        )
        return projection(words.embeddings)

    return make


def _whitened(words: Words, r: int) -> Floats2d:
    projected = _principal(0.5)(words, r)
    weights = np.sqrt(words.counts + 0.5)
    return unit_rows(projected / np.sqrt(np.average(projected**2, axis=0, weights=weights)))


def _without_first(words: Words, r: int) -> Floats2d:
    return unit_rows(_principal(0.5)(words, r + 1)[:, 1:])


def _random(words: Words, r: int) -> Floats2d:
    random = np.random.default_rng(0)
    centred = words.embeddings - words.embeddings.mean(axis=0)
    return unit_rows(centred @ random.standard_normal((centred.shape[1], r)))


def _published(words: Words, r: int) -> Floats2d:
    return words.embeddings


_PUBLISHED = Space("full width, as published", 0, _published)
PREVIOUS: Final = Space("principal components, f^.5, length 1", 32, _ours(0.5, _PRINCIPAL, 0.0))
OURS: Final = Space("ours", space.DIMENSIONS, _ours())


def ablations(few: bool = False) -> list[Space]:
    """Constructions at the dimensions that suit them."""
    r = space.DIMENSIONS
    some = [
        _PUBLISHED,
        Space("principal components", 32, _principal(0.0)),
        PREVIOUS,
        Space("principal components, f^.5, length 1", r, _ours(0.5, _PRINCIPAL, 0.0)),
        Space("neighbours' directions, f^.5", r, _ours(0.5, shrinkage=0.0)),
        Space("neighbours' directions, f^.7", r, _ours(shrinkage=0.0)),
    ]
    more = [
        Space("random projection, length 1", 32, _random),
        Space("principal components, f^1", 32, _principal(1.0)),
        Space("principal components, f^1, length 1", 32, _ours(1.0, _PRINCIPAL, 0.0)),
        Space("principal components, f^.5, whitened", r, _whitened),
        Space("principal components, f^.5, without the first", r, _without_first),
        Space("principal components, f^.7, rare words moved", r, _ours(ridge=_PRINCIPAL)),
        Space("ours with f^.5", r, _ours(0.5)),
        Space("ours with f^1", r, _ours(1.0)),
    ]
    return some if few else some + more


def sweep(few: bool = False) -> list[Space]:
    """Ours at many dimensions."""
    return [
        Space("ours", r, _ours())
        for r in ((8, 16, 32, 128) if few else (8, 12, 16, 24, 32, 48, 64, 128, 384))
    ]
