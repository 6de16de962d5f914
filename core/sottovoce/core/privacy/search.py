"""Finds the word nearest to a noisy vector.

The search is pure post-processing. It receives noisy vectors and the name of a word class; the true
word never reaches it. An approximate search is therefore as private as an exact one. The builder
measures whether a graph is faster, by class and eta. The manifest says from which eta on, and with
which effort ``ef``. A device builds that graph itself, see `sottovoce.core.privacy.graphs`. Where
hnswlib is not installed, it compares with every word instead.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY, CLITIC
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy.graphs import Graphs, HnswIndex
from sottovoce.core.privacy.noise import Floats2d

__all__ = ["ExactIndex", "Index", "Search"]

_QUERIES = 32
"""Queries compared at once in exact search: enough for the matrix product to run at full speed."""

_SCORES = 1 << 15
"""Scores held at once: 128 KiB, which stay in a processor's own cache."""

_log = logging.getLogger(__name__)


class Index(Protocol):
    """Nearest neighbours among the words of one class."""

    def nearest(self, queries: Floats2d) -> NDArray[np.int64]:
        """Place of the nearest word for each query.

        Args:
            queries: Floats2d (n, r).

        Returns:
            Ints1d (n,), each in 0 .. words - 1. Safe to call from several threads.
        """


class ExactIndex:
    """Compares every query with every word.

    RAPT v2 eq. 2. On rows of length 1 the nearest row is the one with the largest inner product.

    Args:
        rows: Floats2d (words, r). They are copied as columns, because a product of a few queries
            with rows takes up to five times as long.
    """

    def __init__(self, rows: Floats2d) -> None:
        self._columns = np.ascontiguousarray(rows.T)

    def nearest(self, queries: Floats2d) -> NDArray[np.int64]:
        n, words = len(queries), self._columns.shape[1]
        if n * words <= _SCORES:  # one tile
            only: NDArray[np.int64] = (queries @ self._columns).argmax(axis=1)
            return only
        scores = np.empty(_SCORES, np.float32)
        chunks = [slice(start, min(start + _QUERIES, n)) for start in range(0, n, _QUERIES)]
        found, place = np.zeros(n, np.int64), np.empty(n, np.int64)
        best, score = np.full(n, -np.inf, np.float32), np.empty(n, np.float32)
        # Tile by tile: a few queries meet many words at once, many queries fewer words.
        step = _SCORES // max(1, min(n, _QUERIES))
        for start in range(0, words, step):
            columns = self._columns[:, start : start + step]
            for chunk in chunks:
                place[chunk], score[chunk] = _best(queries[chunk], columns, scores)
            np.copyto(found, place + start, where=score > best)
            np.maximum(best, score, out=best)
        return found


def _best(
    queries: Floats2d, columns: Floats2d, scores: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Which column has the largest inner product with each query, and that product.

    Args:
        queries: Floats2d (n, r).
        columns: Floats2d (r, words).
        scores: room for all products.
    """
    n, words = len(queries), columns.shape[1]
    tile = np.matmul(queries, columns, out=scores[: n * words].reshape(n, words))
    place = tile.argmax(axis=1)
    return place, tile[np.arange(n), place]


class Search:
    """The indexes of a bundle, each opened when its class is first asked for.

    Args:
        bundle: whose words are searched.
        graphs: keeps the graphs that are built; without it they last as long as the process.
    """

    def __init__(self, bundle: Bundle, graphs: Graphs | None = None) -> None:
        self._bundle = bundle
        self._graphs = graphs
        self._exact: dict[str, Index] = {}
        self._graphs_open: dict[str, Index] = {}
        self._opening = threading.Lock()

    def known_class(self, name: str) -> str:
        """``name`` if the bundle has words in it, else the class that takes its place.

        Clitics fall back to all clitics, free words to all free words.
        """
        for candidate in (name, ANY + CLITIC if name.endswith(CLITIC) else ANY):
            found = self._bundle.manifest.classes.get(candidate)
            if found is not None and found.words:
                return candidate
        return ANY

    def nearest(self, name: str, noisy: Floats2d, eta: float) -> NDArray[np.int32]:
        """Ids of the words of class ``name`` nearest to the rows of ``noisy``.

        Args:
            name: a class the bundle has, as `known_class` returns it.
            noisy: Floats2d (n, r), vectors that carry their noise already.
            eta: of the noise. It chooses the search only.

        Returns:
            Ints1d (n,).
        """
        found = self.index(name, eta).nearest(noisy)
        return self._bundle.class_members(name)[found]

    def index(self, name: str, eta: float) -> Index:
        """The index that answers queries of class ``name`` with noise of ``eta``."""
        told = self._bundle.manifest.classes[name]
        graph = told.ef > 0 and eta >= told.from_eta
        with self._opening:
            kept = self._graphs_open if graph else self._exact
            if name not in kept:
                kept[name] = self._open(name, told.ef if graph else 0)
            return kept[name]

    def _open(self, name: str, ef: int) -> Index:
        rows = self._bundle.class_rows(name)
        if not ef:
            return ExactIndex(rows)
        try:
            if self._graphs is None:
                return HnswIndex.build(rows, ef)
            return self._graphs.index(rows, ef, self._bundle.space_id, name)
        except NotReady:
            _log.info("hnswlib is not installed: words are compared one by one")
            return ExactIndex(rows)
