"""A class gets a graph only if the graph finds enough and saves time."""

import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import WordClass
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy.attacker import perturb
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.search import ExactIndex, HnswIndex
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.models import indexes

LEVEL = "t2t.v1/x"


@pytest.fixture
def hnswlib() -> None:
    pytest.importorskip("hnswlib", reason="graphs need the extra `graph` (hnswlib)")


def _rows(n: int, r: int) -> Floats2d:
    return unit_rows(np.random.default_rng(n).standard_normal((n, r)).astype(np.float32))


def _build(rows: Floats2d, eta: float, choice: indexes.Choice = "hnsw") -> WordClass:
    return indexes.build(rows, np.ones(len(rows)), {LEVEL: eta}, 10, choice=choice)


def _pretend(monkeypatch: pytest.MonkeyPatch, graph: float, exact: float) -> list[int]:
    """Has every measurement find these times; the sizes of batch asked for."""
    asked: list[int] = []

    def times(searches: object, noisy: Floats2d, batch: int) -> list[float]:
        asked.append(batch)
        return [graph, exact]

    monkeypatch.setattr(indexes, "microseconds", times)
    return asked


@pytest.mark.parametrize("choice", ["auto", "hnsw"])
def test_small_classes_are_searched_exactly(choice: indexes.Choice) -> None:
    built = _build(_rows(255, 8), 20.0, choice)

    assert (built.ef, built.words, built.offset) == (0, 255, 10)
    assert (built.recall, built.kept_difference) == ({LEVEL: 1.0}, {LEVEL: 0.0})


@pytest.mark.usefixtures("hnswlib")
def test_the_graph_finds_what_its_recall_says() -> None:
    rows = _rows(3_000, 16)
    built = _build(rows, 30.0)
    assert built.ef
    assert built.recall[LEVEL] >= 0.99
    assert abs(built.kept_difference[LEVEL]) <= 0.01

    graph, exact = HnswIndex.build(rows, built.ef), ExactIndex(rows)
    words = np.arange(3_000, dtype=np.int32)
    fresh = {LEVEL: (words, perturb(rows, 30.0, np.random.default_rng(5)))}
    recall, difference = indexes.measure(graph, exact, fresh)
    # 3,000 other queries: 4 standard errors at .99, alpha < 1e-4.
    error = 4 * (0.01 * 0.99 / 3_000) ** 0.5
    assert recall[LEVEL] > built.recall[LEVEL] - error
    assert abs(difference[LEVEL] - built.kept_difference[LEVEL]) < 2 * error


def test_recall_and_kept_rate_are_told_apart() -> None:
    class Fixed:
        def __init__(self, *found: int) -> None:
            self.found = np.array(found)

        def nearest(self, queries: Floats2d) -> NDArray[np.int64]:
            return self.found

    words = np.array([0, 1, 2, 3], np.int32)
    exact, graph = Fixed(0, 1, 9, 8), Fixed(0, 7, 9, 6)
    recall, difference = indexes.measure(graph, exact, {"a": (words, np.zeros((4, 2), np.float32))})
    assert recall == {"a": 0.5}
    assert difference == {"a": -0.25}


@pytest.mark.usefixtures("hnswlib")
@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("_EFFORTS", (1,)),  # far too little for the queries to arrive
        ("_KEPT_DIFFERENCE", -1.0),  # no graph is that near
    ],
)
def test_a_graph_that_misses_is_not_kept(
    limit: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, limit, value)
    built = _build(_rows(3_000, 16), 20.0)

    assert built.ef == 0
    assert built.recall == {LEVEL: 1.0}


@pytest.mark.usefixtures("hnswlib")
@pytest.mark.parametrize(("exact", "kept"), [(1.4, False), (1.6, True)])
def test_only_a_graph_that_is_clearly_faster_is_kept(
    exact: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _pretend(monkeypatch, 1.0, exact)
    built = _build(_rows(1_000, 8), 20.0, "auto")

    assert (built.ef > 0) == kept
    assert set(asked) == set(indexes.BATCHES)


@pytest.mark.usefixtures("hnswlib")
def test_a_graph_serves_the_levels_at_which_it_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the graph is faster for the two lightest levels alone."""
    rows, etas = _rows(2_000, 16), {"m/a": 5.0, "m/b": 30.0, "m/c": 60.0}
    heavy = np.linalg.norm(indexes.draw_queries(rows, np.ones(2_000), {"": 10.0})[""][1], axis=1)

    def times(searches: object, noisy: Floats2d, batch: int) -> list[float]:
        loud = np.linalg.norm(noisy, axis=1).max() > np.median(heavy)
        return [1.0, 0.5 if loud else 9.0]

    monkeypatch.setattr(indexes, "microseconds", times)
    built = indexes.build(rows, np.ones(2_000), etas, 0, choice="auto")

    assert built.ef
    assert built.from_eta == 30.0
    assert (built.recall["m/a"], built.kept_difference["m/a"]) == (1.0, 0.0)
    assert min(built.recall["m/b"], built.recall["m/c"]) >= 0.99


@pytest.mark.usefixtures("hnswlib")
def test_a_large_list_gets_a_graph_that_answers_right(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four words near each of the default bundle: 87,000 in all."""
    random, some = np.random.default_rng(4), np.asarray(bundle.space)
    near = np.repeat(some, 4, axis=0)
    rows = unit_rows(near + 0.15 * random.standard_normal(near.shape).astype(np.float32))
    levels = bundle.manifest.calibration["t2t.v1"]
    etas = {f"t2t.v1/{name}": level.eta for name, level in levels.items()}
    weights = np.ones(len(rows))
    graphs, build = [], HnswIndex.build

    def kept(*given: Any) -> HnswIndex:  # a second one would take as long
        graphs.append(build(*given))
        return graphs[-1]

    monkeypatch.setattr(HnswIndex, "build", kept)
    built = indexes.build(rows, weights, etas, 0, choice="auto", seed=1)

    assert built.ef
    assert built.from_eta <= etas["t2t.v1/light"]
    served = [level for level, eta in etas.items() if eta >= built.from_eta]
    graph, exact = graphs[-1], ExactIndex(rows)
    graph.set_effort(built.ef)
    fresh = indexes.draw_queries(rows, weights, {each: etas[each] for each in served}, seed=2)
    # 3,000 other queries a level: 4 standard errors at .99, alpha < 1e-4.
    recall, _ = indexes.measure(graph, exact, fresh)
    assert min(recall.values()) > 0.99 - 4 * (0.01 * 0.99 / 3_000) ** 0.5


def test_exact_search_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _pretend(monkeypatch, 1.0, 100.0)
    assert _build(_rows(1_000, 8), 20.0, "exact").ef == 0
    assert not asked


def test_without_hnswlib_graphs_are_not_tried_and_cannot_be_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)  # as if it were not installed
    assert _build(_rows(1_000, 8), 20.0, "auto").ef == 0
    with pytest.raises(NotReady, match="hnswlib"):
        _build(_rows(1_000, 8), 20.0, "hnsw")


@pytest.mark.usefixtures("hnswlib")
def test_what_was_timed_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, built = _rows(1_000, 8), []
    for exact in (2.0, 37.0):
        _pretend(monkeypatch, 1.0, exact)
        built.append(_build(rows, 20.0, "auto"))

    assert built[0] == built[1]


def test_searches_take_turns_at_being_timed() -> None:
    turns: list[tuple[str, int]] = []

    class Recorded:
        def __init__(self, name: str) -> None:
            self.name = name

        def nearest(self, queries: Floats2d) -> NDArray[np.int64]:
            turns.append((self.name, len(queries)))
            return np.zeros(len(queries), np.int64)

    noisy = np.zeros((50, 2), np.float32)
    times = indexes.microseconds((Recorded("a"), Recorded("b")), noisy, 20, rounds=2)
    assert turns == [(name, n) for name in "abab" for n in (20, 20, 10)]
    assert len(times) == 2
    assert min(times) > 0


def test_the_bundle_states_recall_and_kept_rate_at_every_level(bundle: Bundle) -> None:
    for name, word_class in bundle.manifest.classes.items():
        mechanism = "pct2t.v2" if name.startswith("=") else "pct2t.v1"
        levels = {f"{mechanism}/{level}" for level in ("strong", "balanced", "light")}
        assert levels <= set(word_class.recall) == set(word_class.kept_difference)
        assert min(word_class.recall.values()) >= 0.99
        assert max(map(abs, word_class.kept_difference.values())) <= 0.01
        assert (word_class.words >= 256) or word_class.ef == 0, name
    assert {"t2t.v1/strong", "t2t.v1/light"} <= set(bundle.manifest.classes["*"].recall)


@pytest.mark.usefixtures("hnswlib")
def test_a_graph_over_real_words_finds_the_nearest(bundle: Bundle) -> None:
    rows = bundle.class_rows("VERB")
    eta = bundle.manifest.level("pct2t.v1", "balanced").eta
    built = _build(rows, eta)
    assert built.ef
    graph = HnswIndex.build(rows, built.ef)
    noisy = perturb(rows, eta, np.random.default_rng(3))

    # 5,000 other queries at .99: 4 standard errors, alpha < 1e-4.
    assert (graph.nearest(noisy) == ExactIndex(rows).nearest(noisy)).mean() > 0.984
