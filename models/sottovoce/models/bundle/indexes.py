"""Decides by measurement how each word class is searched: word by word, or over a graph.

Why it is here: a graph that misses the nearest word costs utility without any gain in privacy, and
how often it does depends on the noise; and whether it saves time depends on the size of the class,
on how many words a document brings at once, and on the machine. So both searches answer the same
noisy queries here, through the very code of the device, and a class gets a graph only where that
finds what it should at every level and is clearly faster. (``bench.search``, x86, 16 dimensions:
strong noise makes a graph so laborious that none did up to 400,000 words. For `light` alone none
would in the classes of `pct2t.v2`: 8,890 nouns take 22 / 10 / 11 microseconds a query at 1 / 20 /
200 at once, and 15 / 11 / 12 over a graph. Of all 21,785 words, 54 / 23 / 25 and 16 / 11 / 12, one
would: so an index a level would serve `t2t.v1` at `light`, and nobody else.)
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Final, Literal

import hnswlib
import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.manifest import WordClass
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.running_text import UNSEEN, draw
from sottovoce.core.privacy.search import ExactIndex, HnswIndex, Index
from sottovoce.core.privacy.sphere_map import perturb

__all__ = [
    "BATCHES",
    "Choice",
    "Measured",
    "Queries",
    "build",
    "draw_queries",
    "empty_graph",
    "measure",
    "measured_graph",
    "microseconds",
]

Choice = Literal["auto", "exact", "hnsw"]
"""Measure both; compare with every word; a graph wherever one finds enough."""

BATCHES: Final = (1, 20, 200)
"""Words of one class that a message, a page and a long document bring at once."""

_FEWEST: Final = 256
"""Below this, comparing with every word is faster than any graph."""
_PILOT: Final = 4_096
_LINKS: Final = 32
_CONSTRUCTION: Final = 200
_EFFORTS: Final = (16, 32, 64, 100, 150, 200, 300, 400, 600)
_RECALL: Final = 0.99
_KEPT_DIFFERENCE: Final = 0.01
_FASTER: Final = 1.5
"""How many times faster than exact search a graph must be. Timings vary by some ten per cent from
run to run; so wide a margin lets the same inputs give the same choice."""
_QUERIES: Final = 3_000
_ROUNDS: Final = 5

Queries = Mapping[str, tuple[NDArray[np.int32], Floats2d]]
"""By level: places of the true words, and their noisy vectors (n, r)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A graph at one effort, and how well it answered by level: see `measure`."""

    search: HnswIndex
    effort: int
    recall: dict[str, float]
    kept_difference: dict[str, float]

    @property
    def suffices(self) -> bool:
        """Whether it finds .99 at every level, and keeps as many words within 1 point."""
        off = max(map(abs, self.kept_difference.values()))
        return min(self.recall.values()) >= _RECALL and off <= _KEPT_DIFFERENCE


def build(
    rows: Floats2d,
    weights: NDArray[np.float64],
    etas: Mapping[str, float],
    folder: Path,
    path: str,
    offset: int,
    *,
    choice: Choice = "auto",
    seed: int = 0,
) -> WordClass:
    """Chooses the search of one class, and writes its graph if it gets one.

    One thread adds the words in order and levels come from ``seed``: a second build gives the same
    bytes. What was timed decides and is forgotten.

    Args:
        rows: Floats2d (m, r), the class in order of ids.
        weights: Floats1d (m,), how often each of them is met.
        etas: by "mechanism/level".
        folder: the bundle being built.
        path: of the graph inside it.
        offset: where the class begins in ``members.npy``.
        choice: "auto" measures; "exact" and "hnsw" ask for one or the other. A class of few words,
            or whose graph misses too much, is searched exactly in any case.
        seed: of the graph and the queries.

    Returns:
        The class as the manifest describes it, with recall@1 and the difference in kept rate at
        each of ``etas``.
    """
    exact = WordClass(
        offset, len(rows), None, 0, dict.fromkeys(etas, 1.0), dict.fromkeys(etas, 0.0)
    )
    if choice == "exact" or len(rows) < _FEWEST:
        return exact
    oracle, file = ExactIndex(rows), folder / path
    queries = draw_queries(rows, weights, etas, seed=seed)
    if choice == "auto" and not _worth_building(oracle, rows, queries, file, seed):
        return exact
    _write_graph(rows, file, seed)
    graph = measured_graph(file, oracle, queries, len(rows))
    if not graph.suffices or (choice == "auto" and not _faster(graph.search, oracle, queries)):
        file.unlink()
        return exact
    return WordClass(offset, len(rows), path, graph.effort, graph.recall, graph.kept_difference)


def empty_graph(words: int, r: int, seed: int = 0) -> hnswlib.Index:
    """A graph with room for ``words`` rows of dimension ``r``, to be added by one thread."""
    graph = hnswlib.Index(space="l2", dim=r)
    graph.init_index(words, M=_LINKS, ef_construction=_CONSTRUCTION, random_seed=seed)
    graph.set_num_threads(1)
    return graph


def measured_graph(file: Path, oracle: Index, queries: Queries, words: int) -> Measured:
    """The graph in ``file`` at the least effort that suffices; at the greatest if none does."""
    r = next(iter(queries.values()))[1].shape[1]
    for effort in _EFFORTS:
        graph = HnswIndex(file, words, r, effort)
        measured = Measured(graph, effort, *measure(graph, oracle, queries))
        if measured.suffices:
            break
    return measured


def measure(
    graph: Index, oracle: Index, queries: Queries
) -> tuple[dict[str, float], dict[str, float]]:
    """How well ``graph`` answers where ``oracle`` is right.

    Returns:
        By level: recall@1; and the share of words kept (released as they were), graph minus exact.
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
    """Microseconds a query takes in each of ``searches``, asked ``batch`` queries at a time.

    Medians of ``rounds`` in which the searches take turns, by the processor time of this thread: so
    whatever else the machine does changes little, and both alike. Linear algebra must be kept to
    this thread too.
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
    rows: Floats2d,
    weights: NDArray[np.float64],
    etas: Mapping[str, float],
    n: int = _QUERIES,
    seed: int = 0,
) -> Queries:
    """About ``n`` words of running text a level, with its noise; arguments as for `build`."""
    random = np.random.default_rng(seed)
    queries = {}
    for level, eta in etas.items():
        words = draw({"": weights + UNSEEN}, n, random)[""]
        queries[level] = words, perturb(rows[words], eta, random)
    return queries


def _worth_building(oracle: Index, rows: Floats2d, queries: Queries, file: Path, seed: int) -> bool:
    """Whether a graph over a part of the words is faster than comparing with all of them.

    The graph over all of them will be slower than that one, and takes far longer to build.
    """
    part = np.random.default_rng(seed).permutation(len(rows))[:_PILOT]
    _write_graph(rows[part], file, seed)
    pilot = HnswIndex(file, len(part), rows.shape[1], min(_EFFORTS))
    file.unlink()
    return _faster(pilot, oracle, queries)


def _faster(graph: Index, oracle: Index, queries: Queries) -> bool:
    """Whether ``graph`` saves enough over documents of all lengths and levels.

    Each size of batch counts for as many words.
    """
    noisy = np.concatenate([noisy for _, noisy in queries.values()])
    some = noisy[np.random.default_rng(0).permutation(len(noisy))[: max(BATCHES)]]
    times = [microseconds((graph, oracle), some, batch) for batch in BATCHES]
    of_graph, of_oracle = (fmean(each) for each in zip(*times, strict=True))
    return of_oracle >= _FASTER * of_graph


def _write_graph(rows: Floats2d, file: Path, seed: int) -> None:
    graph = empty_graph(len(rows), rows.shape[1], seed)
    graph.add_items(rows, np.arange(len(rows)))
    graph.save_index(str(file))
