"""Chooses the metric on words: the privacy space.

Why it is here: d_X-privacy needs *a* metric, not the backbone's own. Noise of density
exp(-eta * ||z||) grows in length with the dimension, so few dimensions make replacements closer in
meaning at the same rate of replacement; and what the components are weighted with decides which
words are protected. Plain principal components leave rare words (names, places, diagnoses) alone
in their corners, weights by full frequency crowd them together. The square root of frequency, with
rows scaled to length 1, treats both alike, and bounds every distance by 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sottovoce.cloud.running_text import UNSEEN
from sottovoce.edge.errors import InvalidInput

__all__ = ["Projection", "fit", "unit_rows"]


@dataclass(frozen=True, slots=True)
class Projection:
    """Token embeddings to the privacy space: x -> (x - mean) @ components.

    Attributes:
        mean: Floats1d (width,).
        components: Floats2d (width, r), orthonormal columns, the widest spread first.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]

    def __call__(self, embeddings: NDArray[np.float32]) -> NDArray[np.float32]:
        """Floats2d (n, width) to Floats2d (n, r); not scaled."""
        centred = embeddings.astype(np.float64) - self.mean
        projected: NDArray[np.float32] = (centred @ self.components).astype(np.float32)
        return projected


def fit(embeddings: NDArray[np.float32], counts: NDArray[np.float64], r: int) -> Projection:
    """The ``r`` principal components of the words, weighted by the square root of frequency.

    Args:
        embeddings: Floats2d (words, width).
        counts: Floats1d (words,), occurrences in running text.
        r: dimensions of the privacy space, at most the width.

    Raises:
        InvalidInput: ``r`` is not between 2 and the width.
    """
    width = embeddings.shape[1]
    if not 2 <= r <= width:
        raise InvalidInput(
            f"the privacy space cannot have {r} dimensions",
            fix=f"choose between 2 and {width}, the width of the backbone's embeddings",
            subject="dimensions",
        )
    weights = np.sqrt(counts + UNSEEN)
    weights /= weights.sum()
    words = embeddings.astype(np.float64)
    mean = weights @ words
    words -= mean
    _, vectors = np.linalg.eigh((words * weights[:, None]).T @ words)
    components = vectors[:, ::-1][:, :r]
    # An eigenvector's sign is free; its largest entry made positive fixes it.
    largest = np.abs(components).argmax(axis=0)
    components = components * np.sign(components[largest, np.arange(r)])
    return Projection(mean, np.ascontiguousarray(components))


def unit_rows(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows scaled to length 1; a row of zeros becomes the first unit vector."""
    scaled = rows.astype(np.float64)
    lengths = np.linalg.norm(scaled, axis=1)
    scaled[lengths == 0, 0] = lengths[lengths == 0] = 1.0
    unit: NDArray[np.float32] = (scaled / lengths[:, None]).astype(np.float32)
    return unit
