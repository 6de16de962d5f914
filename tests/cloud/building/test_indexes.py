"""A class gets a graph only where the graph finds what it should."""

from pathlib import Path

import numpy as np
import pytest

from sottovoce.cloud.attack import perturb
from sottovoce.cloud.building import indexes
from sottovoce.edge.bundle import Bundle
from sottovoce.edge.noise import Floats2d
from sottovoce.edge.search import ExactIndex, HnswIndex


def _rows(n: int, r: int) -> Floats2d:
    rows = np.random.default_rng(n).standard_normal((n, r)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _build(rows: Floats2d, eta: float, folder: Path) -> indexes.WordClass:
    folder.mkdir(exist_ok=True)
    return indexes.build(rows, np.ones(len(rows)), {"t2t.v1/x": eta}, folder, "graph", 10)


def test_small_classes_are_searched_exactly(tmp_path: Path) -> None:
    built = _build(_rows(255, 8), 20.0, tmp_path)

    assert (built.index, built.words, built.offset, built.recall) == (
        None,
        255,
        10,
        {"t2t.v1/x": 1.0},
    )
    assert not any(tmp_path.iterdir())


def test_the_graph_finds_what_its_recall_says(tmp_path: Path) -> None:
    rows = _rows(3_000, 16)
    built = _build(rows, 30.0, tmp_path)
    assert built.index == "graph"
    assert built.recall["t2t.v1/x"] >= 0.99

    graph = HnswIndex(tmp_path / "graph", 3_000, 16, built.ef)
    noisy = perturb(rows, 30.0, np.random.default_rng(5))
    found = (graph.nearest(noisy) == ExactIndex(rows).nearest(noisy)).mean()
    # 3,000 other queries: 4 standard errors at .99, alpha < 1e-4.
    assert found > built.recall["t2t.v1/x"] - 4 * (0.01 * 0.99 / 3_000) ** 0.5


def test_a_graph_that_misses_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexes, "_EFFORTS", (1,))  # far too little for the queries to arrive
    built = _build(_rows(3_000, 16), 20.0, tmp_path)

    assert built.index is None
    assert built.recall == {"t2t.v1/x": 1.0}
    assert not any(tmp_path.iterdir())


def test_a_second_build_gives_the_same_bytes(tmp_path: Path) -> None:
    rows = _rows(1_000, 8)
    first, second = (_build(rows, 20.0, tmp_path / name) for name in "ab")

    assert first == second
    assert (tmp_path / "a" / "graph").read_bytes() == (tmp_path / "b" / "graph").read_bytes()


def test_the_bundle_states_recall_at_every_level(bundle: Bundle) -> None:
    levels = {f"pct2t.v1/{name}" for name in ("strong", "balanced", "light")}
    for name, word_class in bundle.manifest.classes.items():
        assert levels <= set(word_class.recall)
        assert min(word_class.recall.values()) >= 0.99
        assert (word_class.words >= 256) or word_class.index is None, name
    assert {"t2t.v1/strong", "t2t.v1/light"} <= set(bundle.manifest.classes["*"].recall)


@pytest.mark.parametrize("name", ["*", "NOUN"])
def test_the_bundles_graphs_find_the_nearest(bundle: Bundle, name: str) -> None:
    word_class = bundle.manifest.classes[name]
    assert word_class.index is not None
    rows = bundle.space[bundle.class_members(name)]
    graph = HnswIndex(bundle.folder / word_class.index, len(rows), rows.shape[1], word_class.ef)
    random = np.random.default_rng(3)
    eta = bundle.manifest.level("pct2t.v1", "balanced").eta
    noisy = perturb(rows[random.integers(len(rows), size=1_500)], eta, random)

    # Words drawn alike rather than by frequency are harder: two points of allowance.
    assert (graph.nearest(noisy) == ExactIndex(rows).nearest(noisy)).mean() > 0.97
