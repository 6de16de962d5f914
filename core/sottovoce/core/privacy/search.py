"""Finds the word nearest to a noisy vector.

The search is pure post-processing. It receives noisy vectors and the name of a word class; the true
word never reaches it. An approximate search is therefore as private as an exact one. The builder
measures whether a graph is faster, by class and eta. The manifest says from which eta on, and with
which effort ``ef``. Where hnswlib is not installed, a device compares with every word instead.

A device builds each graph itself. A bundle carries none, because hnswlib reads a graph's file
without checking its links, and a bundle may be crafted. A graph over 21,800 words takes 2 s to
build and 7 MB. A graph over 100,000 words takes 17 s and 34 MB (one x86 core, 16 dimensions). So a
device keeps its graphs in its own state. Each file begins with a MAC under the device's key, and is
never loaded if the MAC is wrong.
"""

from __future__ import annotations

import logging
import mmap
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY, CLITIC
from sottovoce.core.errors import NotReady, SottovoceError
from sottovoce.core.platform.files import atomic, private_folder
from sottovoce.core.platform.threads import opening
from sottovoce.core.privacy.noise import Floats2d

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAPHS: Final = "graphs"
"""The folder of a device's graphs, in its state."""

_LINKS: Final = 32
_CONSTRUCTION: Final = 200
_MAC: Final = 32
_FORM: Final = f"hnsw 0.8 {_LINKS} {_CONSTRUCTION}".encode()
"""How a graph was built. A kept graph of another form is built again."""

_log = logging.getLogger(__name__)


class HnswIndex:
    """A graph over the rows of one class, searched with effort ``ef``."""

    def __init__(self, graph: Any, ef: int) -> None:
        self._graph = graph
        graph.set_num_threads(1)
        self.set_effort(ef)

    @classmethod
    def build(
        cls, rows: Floats2d, ef: int, links: int = _LINKS, construction: int = _CONSTRUCTION
    ) -> Self:
        """A graph over ``rows``. Equal rows give equal graphs: one thread adds them in order.

        Args:
            rows: Floats2d (words, r).
            ef: effort of the search.
            links: of a word, about.
            construction: effort of the building.

        Raises:
            NotReady: hnswlib is not installed.
        """
        graph = _hnswlib().Index(space="l2", dim=rows.shape[1])
        graph.init_index(len(rows), M=links, ef_construction=construction, random_seed=0)
        graph.add_items(rows, np.arange(len(rows)), num_threads=1)
        return cls(graph, ef)

    def set_effort(self, ef: int) -> None:
        """More effort finds the nearest word more often, and takes longer."""
        self._graph.set_ef(ef)

    def nearest(self, queries: Floats2d) -> NDArray[np.int64]:
        """Place of the nearest word for each query, see `search.Index`."""
        labels, _ = self._graph.knn_query(queries, k=1)
        return np.asarray(labels[:, 0], np.int64)

    def to_bytes(self) -> bytes:
        """The graph as hnswlib writes it."""
        with _in_memory() as file:
            self._graph.save_index(_path(file))
            return os.pread(file, os.fstat(file).st_size, 0)


class Graphs:
    """A device's graphs, each built once and kept. Safe to share between threads.

    Args:
        folder: where they are kept; made when it is missing.
        mac: returns 32 bytes for some parts; computing them needs the device's key.
    """

    def __init__(self, folder: Path, mac: Callable[..., bytes]) -> None:
        self._folder = folder
        self._mac = mac

    def index(self, rows: Floats2d, ef: int, space: str, name: str) -> HnswIndex:
        """Return the graph over ``rows``: the kept graph, or a new graph.

        Args:
            rows: Floats2d (words, r), of the class.
            ef: effort of the search.
            space: SHA-256 of the bundle's rows.
            name: of the class in that bundle.

        Raises:
            NotReady: hnswlib is not installed.
        """
        place = (_FORM, space.encode(), name.encode(), repr(rows.shape).encode())
        file = self._folder / space / f"{self._mac(*place).hex()}.hnsw"
        graph = self._kept(file, place, rows.shape)
        if graph is not None:
            return HnswIndex(graph, ef)
        _log.info("building a graph over %d words", len(rows))
        built = HnswIndex.build(rows, ef)
        self._keep(file, place, built.to_bytes())
        return built

    def _kept(self, file: Path, place: tuple[bytes, ...], shape: tuple[int, ...]) -> Any | None:
        """Return the graph in ``file``; None if it is missing, or this device did not write it."""
        words, r = shape
        graph = _hnswlib().Index(space="l2", dim=r)
        try:
            with opening(), file.open("rb") as kept:
                told = kept.read(_MAC)
                # Copied first: what is verified is what is loaded, whatever becomes of the file.
                with _in_memory() as copy, os.fdopen(os.dup(copy), "wb") as out:
                    shutil.copyfileobj(kept, out)
                    out.flush()
                    with mmap.mmap(copy, 0, access=mmap.ACCESS_READ) as data:
                        if told != self._mac(*place, data):
                            raise ValueError("another MAC")
                    graph.load_index(_path(copy), max_elements=words)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RuntimeError):
            _log.warning("a kept graph was altered or cannot be read: it is built again")
            return None
        return graph

    def _keep(self, file: Path, place: tuple[bytes, ...], data: bytes) -> None:
        """Write a graph, and remove other bundles' graphs. If a graph cannot be kept, the next
        process builds it again."""
        try:
            private_folder(self._folder)
            for other in self._folder.iterdir():
                if other.name != file.parent.name:
                    shutil.rmtree(other, ignore_errors=True)
            private_folder(file.parent)
            with atomic(file) as out:
                out.write(self._mac(*place, data))
                out.write(data)
        except SottovoceError as error:
            _log.warning("a graph is not kept: %s", error.problem)


@contextmanager
def _in_memory() -> Iterator[int]:
    """A file without a place on disk: hnswlib reads and writes files only."""
    file = os.memfd_create("graph")
    try:
        yield file
    finally:
        os.close(file)


def _path(file: int) -> str:
    return f"/proc/self/fd/{file}"


def _hnswlib() -> Any:
    """The library, loaded when it is first needed: an agent without graphs needs none."""
    try:
        import hnswlib
    except ImportError as error:
        raise NotReady(
            "graphs need hnswlib, which is not installed",
            fix="run `pip install 'sottovoce-edge[graph]'`",
            subject="graph",
        ) from error
    return hnswlib


_QUERIES = 32
"""Queries compared at once in exact search: enough for the matrix product to run at full speed."""

_SCORES = 1 << 15
"""Scores held at once: 128 KiB, which stay in a processor's own cache."""


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
        best, score = np.full(n, -np.inf), np.empty(n)
        # Tile by tile: a few queries meet many words at once, many queries fewer words.
        step = _SCORES // min(n, _QUERIES)
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
    """The indexes of a bundle; each is opened when its class is first searched.

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
        ef = told.ef if eta >= told.from_eta else 0
        with self._opening:
            kept = self._graphs_open if ef else self._exact
            if name not in kept:
                kept[name] = self._open(name, ef)
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
