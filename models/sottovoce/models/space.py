"""Choose the metric on words: the privacy space.

d_X-privacy needs a metric, not the backbone's own. Noise of density exp(-eta * ||z||) grows in
length with the dimension. So few dimensions give replacements closer in meaning, at the same
success of the attacker. The dimensions, and the distances of words in them, decide which words are
protected. Each of the three steps was measured against its alternatives (docs/privacy_space.md):

1. `fit` finds the directions in which words spread widely, but near neighbours in meaning do not.
2. Rows are scaled to length 1, which bounds every distance by 2.
3. `place` moves words towards their neighbours, and rare words furthest. Otherwise common words
   would be crowded, and rare words (names, places, diagnoses) isolated and easy to recognise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.attacker import UNSEEN
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.vectors import unit_rows

DIMENSIONS: Final = 16
"""The smallest of the sizes from 8 to 384 with replacements as close as of any size."""

EXPONENT: Final = 0.7
"""Exponent of frequency in the weights of `fit`.

With 1, common words take all the room. With 0.6 or less they get too little, and at light noise
rare words are easier to recognise than common ones."""
RIDGE: Final = 1.0
"""Added to the scatter of neighbours, in units of its mean variance.

It keeps a direction from counting for much only because neighbours agree in it by chance. A large
value leaves plain principal components."""
SHRINKAGE: Final = 1e-4
"""Share of running text at which a word moves half the way to its neighbours."""
_NEIGHBOURS: Final = 20
_SCORES: Final = 1 << 22
"""Cosines in memory at once: 16 MiB."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The map from token embeddings to the privacy space: x -> (x - mean) @ components.

    Attributes:
        mean: Floats1d (width,).
        components: Floats2d (width, r), in order of importance.
    """

    mean: NDArray[np.float64]
    components: NDArray[np.float64]

    def __call__(self, embeddings: Floats2d) -> Floats2d:
        """Map Floats2d (n, width) to Floats2d (n, r), without scaling."""
        centred = embeddings.astype(np.float64) - self.mean
        projected: Floats2d = (centred @ self.components).astype(np.float32)
        return projected


def check_dimensions(r: int, width: int) -> None:
    """Raise InvalidInput unless ``r`` is between 2 and the ``width`` of the embeddings."""
    if not 2 <= r <= width:
        raise InvalidInput(
            f"the privacy space cannot have {r} dimensions",
            fix=f"choose between 2 and {width}, the width of the backbone's embeddings",
            subject="dimensions",
        )


def neighbours(
    embeddings: Floats2d,
    basis: NDArray[np.bool_],
    run: Callable[[Callable[[slice], NDArray[np.int32]], list[slice]], Iterable[NDArray[np.int32]]],
) -> NDArray[np.int32]:
    """Return the nearest words in meaning to each word, by the cosine of embeddings.

    The search is exact. Its cost grows with the number of words times the size of the basis.

    Args:
        embeddings: Floats2d (words, width).
        basis: Bools1d (words,), the words that may be neighbours.
        run: `map`, or the `map` of a pool of threads.

    Returns:
        Ints2d (words, k), in no order, without the word itself. k is 20, or a tenth of few words.
    """
    rows = unit_rows(embeddings)
    ids = np.flatnonzero(basis).astype(np.int32)
    places = np.cumsum(basis) - 1
    columns = rows if basis.all() else rows[ids]
    n = len(columns)
    k = min(_NEIGHBOURS, max(1, n // 10))

    def nearest(chunk: slice) -> NDArray[np.int32]:
        cosines = rows[chunk] @ columns.T
        own = np.flatnonzero(basis[chunk])
        cosines[own, places[chunk][own]] = -np.inf
        return ids[np.argpartition(cosines, n - k, axis=1)[:, n - k :]]

    step = max(1, _SCORES // n)
    chunks = [slice(start, start + step) for start in range(0, len(rows), step)]
    return np.concatenate([*run(nearest, chunks)])


def fit(
    embeddings: Floats2d,
    counts: NDArray[np.float64],
    near: NDArray[np.int32],
    basis: NDArray[np.bool_],
    r: int,
) -> Projection:
    """Return the ``r`` directions with the largest spread of words relative to neighbours.

    Both scatters are weighted by a power of frequency. The directions are generalised eigenvectors,
    as in linear discriminant analysis. A word and the mean of its neighbours stand for a class.

    Args:
        embeddings: Floats2d (words, width).
        counts: Floats1d (words,), occurrences in running text.
        near: Ints2d (words, k), see `neighbours`.
        basis: Bools1d (words,), the words that count.
        r: dimensions of the privacy space, at most the width.

    Raises:
        InvalidInput: ``r`` is not between 2 and the width.
    """
    width = embeddings.shape[1]
    check_dimensions(r, width)
    weights = (counts[basis] + UNSEEN) ** EXPONENT
    weights /= weights.sum()
    words = embeddings[basis].astype(np.float64)
    near = (np.cumsum(basis) - 1)[near[basis]]
    mean = weights @ words
    words -= mean
    between = (words * weights[:, None]).T @ words
    words -= _means(words, near)
    within = (words * weights[:, None]).T @ words
    within += RIDGE * max(np.trace(within) / width, np.finfo(float).tiny) * np.eye(width)
    # With within = L L', the eigenvectors v of inv(L) between inv(L)' give directions inv(L)'v.
    lower = np.linalg.cholesky(within)
    half = np.linalg.solve(lower, between)
    _, vectors = np.linalg.eigh(np.linalg.solve(lower, half.T))
    components = np.linalg.solve(lower.T, vectors[:, ::-1][:, :r])
    # An eigenvector's sign is free. A positive largest entry fixes it.
    largest = np.abs(components).argmax(axis=0)
    components *= np.sign(components[largest, np.arange(r)])
    return Projection(mean, np.ascontiguousarray(components))


def place(
    projected: Floats2d,
    counts: NDArray[np.float64],
    near: NDArray[np.int32],
    basis: NDArray[np.bool_],
) -> Floats2d:
    """Return rows of length 1, with rare words close to their neighbours.

    A word met c times in a text of n words moves by the share s / (c + s) towards the mean of its
    neighbours, with s = n * `SHRINKAGE`. Only words of the basis count as the text's words. An
    estimate of a rare word's meaning leans on similar words in the same way.

    Args:
        projected: Floats2d (words, r), see `Projection`.
        counts: Floats1d (words,), occurrences in running text. Infinity keeps a word in place.
        near: Ints2d (words, k), see `neighbours`.
        basis: Bools1d (words,). Words outside do not move the others.

    Returns:
        Floats2d (words, r).
    """
    rows = unit_rows(projected)
    half = SHRINKAGE * float(counts[basis & np.isfinite(counts)].sum())
    share = (half / np.maximum(counts + half, 1e-9)).astype(np.float32)[:, None]
    return unit_rows((1 - share) * rows + share * _means(rows, near))


def on_tokens(projected: Floats2d, rows: Floats2d, pieces: tuple[tuple[int, ...], ...]) -> Floats2d:
    """Return the token table. A listed word of one token has the direction of its row.

    Args:
        projected: Floats2d (tokens, r), see `Projection`.
        rows: Floats2d (words, r), see `place`.

    Returns:
        Floats2d (tokens, r). Every token keeps its length, which is its weight in a mean.
    """
    table = projected.copy()
    words = [word for word, ids in enumerate(pieces) if len(ids) == 1]
    tokens = [pieces[word][0] for word in words]
    table[tokens] = rows[words] * np.linalg.norm(projected[tokens], axis=1, keepdims=True)
    return table


def _means(rows: NDArray[np.floating], near: NDArray[np.int32]) -> NDArray[np.floating]:
    """Return the mean of each word's neighbours, summed one by one to save gigabytes."""
    total = np.zeros_like(rows)
    for column in near.T:
        total += rows[column]
    means: NDArray[np.floating] = total / near.shape[1]
    return means
