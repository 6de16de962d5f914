"""Decide by measurement whether a word class is searched word by word or over a graph.

A graph that misses the nearest word costs utility without any gain in privacy. Its misses depend on
the noise. Its speed depends on the size of the class, the words a document brings at once, and the
machine. So both searches answer the same noisy queries here, with the device's own code. A class
gets a graph for the levels at which the graph finds the nearest words and is clearly faster. More
noise makes a graph slower and worse, so these are the levels from one eta on. The manifest states
this eta and the effort of the search, and each device builds the graph itself.

`python -m bench.search` measures both searches; docs/privacy_space.md has its figures.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import WordClass
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy.attacker import UNSEEN, draw, perturb
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.search import ExactIndex, HnswIndex, Index

Choice = Literal["auto", "exact", "hnsw"]
"""Measure both searches, compare with every word, or take a graph if it finds enough."""

BATCHES: Final = (1, 20, 200)
"""Words of one class in a message, a page and a long document."""

_FEWEST: Final = 256
"""Below this, comparing with every word is faster than any graph."""
_PILOT: Final = 4_096
_EFFORTS: Final = (16, 32, 64, 100, 150, 200, 300, 400, 600)
_RECALL: Final = 0.99
_KEPT_DIFFERENCE: Final = 0.01
_FASTER: Final = 1.5
"""The least factor by which a graph must be faster than exact search.

Timings vary by some ten per cent between runs. The margin gives equal inputs equal choices."""
_QUERIES: Final = 3_000
_ROUNDS: Final = 5

Queries = Mapping[str, tuple[NDArray[np.int32], Floats2d]]
"""By level: places of the true words, and their noisy vectors (n, r)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Answers of a graph at one effort, compared with exact search, by level. See `measure`."""

    effort: int
    recall: dict[str, float]
    kept_difference: dict[str, float]

    @property
    def suffices(self) -> bool:
        """Whether recall is .99 at every level and the share of kept words within 1 point."""
        off = max(map(abs, self.kept_difference.values()))
        return min(self.recall.values()) >= _RECALL and off <= _KEPT_DIFFERENCE


def build(
    rows: Floats2d,
    weights: NDArray[np.float64],
    etas: Mapping[str, float],
    offset: int,
    *,
    choice: Choice = "auto",
    seed: int = 0,
) -> WordClass:
    """Choose the search of one class, level by level.

    Timings only decide. The effort of a graph follows from rows, seed and the levels it serves.

    Args:
        rows: Floats2d (m, r), the class in order of ids.
        weights: Floats1d (m,), occurrences of each word.
        etas: by "mechanism/level".
        offset: where the class begins in ``members.npy``.
        choice: "auto" measures. "exact" and "hnsw" ask for one search. A class of few words, and a
            level at which a graph misses too much, are searched exactly in any case. Without
            hnswlib "auto" takes exact search.

    Returns:
        The class as the manifest describes it, with recall@1 and the difference in kept rate at
        each of ``etas``: 1 and 0 for the levels with exact search.

    Raises:
        NotReady: graphs are asked for, and hnswlib is not installed.
    """
    exact = WordClass(offset, len(rows), 0, dict.fromkeys(etas, 1.0), dict.fromkeys(etas, 0.0))
    if choice == "exact" or len(rows) < _FEWEST:
        return exact
    oracle = ExactIndex(rows)
    queries = draw_queries(rows, weights, etas, seed=seed)
    lightest = sorted(etas, key=lambda level: -etas[level])
    first = {level: queries[level] for level in lightest[:1]}
    try:
        if choice == "auto" and not _worth_building(oracle, rows, first, seed):
            return exact
        graph = HnswIndex.build(rows, min(_EFFORTS))
    except NotReady:
        if choice == "hnsw":
            raise
        return exact
    served: dict[str, tuple[NDArray[np.int32], Floats2d]] = {}
    found = None
    for level in lightest:
        more = {**served, level: queries[level]}
        measured = measured_graph(graph, oracle, more)
        if not measured.suffices or (choice == "auto" and not _faster(graph, oracle, more)):
            break
        served, found = more, measured
    if found is None:
        return exact
    return replace(
        exact,
        ef=found.effort,
        recall=exact.recall | found.recall,
        kept_difference=exact.kept_difference | found.kept_difference,
        from_eta=min(etas[level] for level in served),
    )


def measured_graph(graph: HnswIndex, oracle: Index, queries: Queries) -> Measured:
    """Measure ``graph`` at the least effort that suffices, or else at the greatest."""
    for effort in _EFFORTS:
        graph.set_effort(effort)
        measured = Measured(effort, *measure(graph, oracle, queries))
        if measured.suffices:
            break
    return measured


def measure(
    graph: Index, oracle: Index, queries: Queries
) -> tuple[dict[str, float], dict[str, float]]:
    """Compare the answers of ``graph`` with the right answers, which ``oracle`` gives.

    Returns:
        By level, recall@1, and the share of words kept (released as they were), graph minus exact.
    """
    recall, difference = {}, {}
    for level, (words, noisy) in queries.items():
        found, nearest = graph.nearest(noisy), oracle.nearest(noisy)
        recall[level] = float(np.mean(found == nearest))
        difference[level] = float(np.mean(found == words) - np.mean(nearest == words))
    return recall, difference


def microseconds(
    searches: Sequence[Index], noisy: Floats2d, batch: int, rounds: int = _ROUNDS
) -> list[float]:
    """Return the microseconds of a query in each of ``searches``, in batches of ``batch``.

    They are medians of ``rounds`` in which the searches take turns, in processor time of this
    thread. So other load changes little, and both alike. The caller keeps linear algebra to this
    thread too.
    """
    taken: list[list[float]] = [[] for _ in searches]
    for _ in range(rounds):
        for times, search in zip(taken, searches, strict=True):
            start = time.thread_time()
            for first in range(0, len(noisy), batch):
                search.nearest(noisy[first : first + batch])
            times.append((time.thread_time() - start) / len(noisy) * 1e6)
    return [median(times) for times in taken]


def draw_queries(
    rows: Floats2d, weights: NDArray[np.float64], etas: Mapping[str, float], seed: int = 0
) -> Queries:
    """Draw words of running text for each level, with its noise. Arguments as for `build`."""
    random = np.random.default_rng(seed)
    queries = {}
    for level, eta in etas.items():
        words = draw({"": weights + UNSEEN}, _QUERIES, random)[""]
        queries[level] = words, perturb(rows[words], eta, random)
    return queries


def _worth_building(oracle: Index, rows: Floats2d, queries: Queries, seed: int) -> bool:
    """Return whether a graph over a part of the words beats exact search over all words.

    The graph over all words will be slower, and takes far longer to build.
    """
    part = np.random.default_rng(seed).permutation(len(rows))[:_PILOT]
    return _faster(HnswIndex.build(rows[part], min(_EFFORTS)), oracle, queries)


def _faster(graph: Index, oracle: Index, queries: Queries) -> bool:
    """Return whether ``graph`` saves enough time over documents of all lengths and levels.

    Each size of batch counts for the same number of words.
    """
    noisy = np.concatenate([noisy for _, noisy in queries.values()])
    some = noisy[np.random.default_rng(0).permutation(len(noisy))[: max(BATCHES)]]
    times = [microseconds((graph, oracle), some, batch) for batch in BATCHES]
    of_graph, of_oracle = (fmean(each) for each in zip(*times, strict=True))
    return of_oracle >= _FASTER * of_graph
