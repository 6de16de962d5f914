"""Builds the search graph of each word class, and keeps it only where it finds what it should.

Why it is here: a graph that misses the nearest word costs utility without any gain in privacy, and
how often it does depends on the noise. So recall is measured with noisy queries at every level, the
effort is raised until it suffices, and a class where it never does is searched exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import hnswlib
import numpy as np
from numpy.typing import NDArray

from sottovoce.cloud.attack import perturb
from sottovoce.cloud.running_text import UNSEEN, draw
from sottovoce.edge.bundle import WordClass
from sottovoce.edge.noise import Floats2d
from sottovoce.edge.search import ExactIndex

__all__ = ["build"]

_FEWEST: Final = 256
"""Below this, comparing with every word is faster than any graph."""
_LINKS: Final = 32
_CONSTRUCTION: Final = 200
_EFFORTS: Final = (64, 100, 200, 400)
_RECALL: Final = 0.99
_QUERIES: Final = 3_000


def build(
    rows: Floats2d,
    weights: NDArray[np.float64],
    etas: Mapping[str, float],
    folder: Path,
    path: str,
    offset: int,
    *,
    seed: int = 0,
) -> WordClass:
    """Writes the graph of one class, if it gets one.

    One thread adds the words in order and levels come from ``seed``: a second build gives the same
    bytes.

    Args:
        rows: Floats2d (m, r), the class in order of ids.
        weights: Floats1d (m,), how often each of them is met.
        etas: by "mechanism/level".
        folder: the bundle being built.
        path: of the graph inside it.
        offset: where the class begins in ``members.npy``.
        seed: of the graph and the queries.

    Returns:
        The class as the manifest describes it, with recall@1 at each of ``etas``.
    """
    exact = WordClass(offset, len(rows), None, 0, dict.fromkeys(etas, 1.0))
    if len(rows) < _FEWEST:
        return exact
    graph = hnswlib.Index(space="l2", dim=rows.shape[1])
    graph.init_index(len(rows), M=_LINKS, ef_construction=_CONSTRUCTION, random_seed=seed)
    graph.add_items(rows, np.arange(len(rows)), num_threads=1)
    recall = _recall(graph, rows, weights, etas, seed)
    if recall is None:
        return exact
    graph.save_index(str(folder / path))
    return WordClass(offset, len(rows), path, *recall)


def _recall(
    graph: hnswlib.Index,
    rows: Floats2d,
    weights: NDArray[np.float64],
    etas: Mapping[str, float],
    seed: int,
) -> tuple[int, dict[str, float]] | None:
    """The least effort that finds enough, and what it finds; None if none does."""
    random = np.random.default_rng(seed)
    oracle = ExactIndex(rows)
    queries = {}
    for name, eta in etas.items():
        words = draw({"": weights + UNSEEN}, _QUERIES, random)[""]
        noisy = perturb(rows[words], eta, random)
        queries[name] = noisy, oracle.nearest(noisy)
    for effort in _EFFORTS:
        graph.set_ef(effort)
        recall = {
            name: float(np.mean(graph.knn_query(noisy, 1, num_threads=1)[0][:, 0] == nearest))
            for name, (noisy, nearest) in queries.items()
        }
        if min(recall.values()) >= _RECALL:
            return effort, recall
    return None
