from __future__ import annotations

import subprocess
import sys
import threading
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.errors import NotReady
from sottovoce.core.privacy import search as searching
from sottovoce.core.privacy.noise import draw
from sottovoce.core.privacy.search import ExactIndex, Graphs, HnswIndex, Search
from sottovoce.edge.state.device_key import Seal


@pytest.fixture
def hnswlib() -> None:
    pytest.importorskip("hnswlib", reason="graphs need the extra `graph` (hnswlib)")


def queries(bundle: Bundle, name: str, n: int, eta: float, seed: int = 0) -> np.ndarray:
    """Noisy vectors (n, r) of words of a class."""
    random = np.random.default_rng(seed)
    ids = random.choice(bundle.class_members(name), n)
    return bundle.space[ids] + draw(random, n, bundle.manifest.dimensions, eta)


def nearest_by_distance(rows: np.ndarray, noisy: np.ndarray) -> np.ndarray:
    """The oracle: Euclidean distances in float64, one query at a time."""
    rows = rows.astype(np.float64)
    return np.array([np.argmin(np.linalg.norm(rows - q, axis=1)) for q in noisy.astype(np.float64)])


def test_exact_search_agrees_with_euclidean_distance(small_bundle: Bundle) -> None:
    noisy = queries(small_bundle, "VERB", 500, 5.0)
    rows = small_bundle.space[small_bundle.class_members("VERB")]
    assert np.array_equal(ExactIndex(rows).nearest(noisy), nearest_by_distance(rows, noisy))


def test_exact_search_is_the_same_in_pieces(
    small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = queries(small_bundle, ANY, 300, 5.0)
    index = ExactIndex(small_bundle.space)
    whole = index.nearest(noisy)
    for queries_at_once, scores in ((7, 7 * 5), (128, 128), (1, 1_000_000)):
        monkeypatch.setattr(searching, "_QUERIES", queries_at_once)
        monkeypatch.setattr(searching, "_SCORES", scores)
        pieces = index.nearest(noisy)
        assert np.array_equal(pieces, whole)
        assert pieces.dtype == whole.dtype


def test_the_scores_held_at_once_are_few(small_bundle: Bundle) -> None:
    """Whatever the list: a device has no memory for all words times all queries."""
    noisy = queries(small_bundle, "VERB", 64, 5.0)
    for words in (1_000, 50_000):
        rows = np.resize(small_bundle.space, (words, small_bundle.manifest.dimensions))
        index = ExactIndex(rows)
        tracemalloc.start()
        try:
            index.nearest(noisy)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 1.5 * searching._SCORES * 4


def test_of_equal_words_the_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_SCORES", 2)
    rows = np.tile(np.eye(2, dtype=np.float32), (3, 1))
    assert ExactIndex(rows).nearest(rows[:2] * 5).tolist() == [0, 1]


def test_the_words_of_a_class_lie_together_in_the_file(small_bundle: Bundle) -> None:
    for name in small_bundle.manifest.classes:
        rows = small_bundle.class_rows(name)
        assert np.array_equal(rows, small_bundle.space[small_bundle.class_members(name)])


@pytest.mark.usefixtures("hnswlib")
def test_an_agent_without_graphs_does_not_load_their_library(small_bundle: Bundle) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from sottovoce.core.bundle.folder import Bundle
        from sottovoce.core.privacy.search import Search
        bundle = Bundle.open(Path(sys.argv[1]))
        for name in ("VERB", "NOUN"):
            Search(bundle).nearest(name, bundle.space[:1], 5.0)
            print("hnswlib" in sys.modules)
    """
    command = [sys.executable, "-c", script, str(small_bundle.folder)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    assert ran.stdout.split() == ["False", "True"]


@pytest.mark.usefixtures("hnswlib")
def test_the_graph_agrees_with_exact_search(small_bundle: Bundle) -> None:
    noisy = queries(small_bundle, "NOUN", 500, 5.0)
    rows = small_bundle.space[small_bundle.class_members("NOUN")]
    found = small_bundle.class_members("NOUN")[nearest_by_distance(rows, noisy)]
    # ef exceeds the number of nouns, so the graph is walked in full.
    assert np.array_equal(Search(small_bundle).nearest("NOUN", noisy, 5.0), found)


@pytest.mark.usefixtures("hnswlib")
def test_a_graph_is_searched_from_its_eta_on(small_bundle: Bundle) -> None:
    told = small_bundle.manifest.classes
    classes = {**told, "NOUN": replace(told["NOUN"], from_eta=20.0)}
    manifest = replace(small_bundle.manifest, classes=classes)
    search = Search(Bundle(small_bundle.folder, manifest, small_bundle.id))

    kinds = [type(search.index("NOUN", eta)) for eta in (1.0, 19.9, 20.0, 80.0)]
    assert kinds == [ExactIndex, ExactIndex, HnswIndex, HnswIndex]


@pytest.mark.usefixtures("hnswlib")
def test_both_indexes_answer_in_one_type(small_bundle: Bundle) -> None:
    noisy = queries(small_bundle, "NOUN", 3, 5.0)
    rows = small_bundle.class_rows("NOUN")
    for index in (ExactIndex(rows), HnswIndex.build(rows, 50)):
        assert index.nearest(noisy).dtype == np.int64


@pytest.mark.usefixtures("hnswlib")
def test_a_kept_graph_is_opened_by_the_next_search(
    small_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = queries(small_bundle, "NOUN", 50, 5.0)
    kept = Graphs(tmp_path, Seal(bytes(32)).name)
    built = Search(small_bundle, kept).nearest("NOUN", noisy, 5.0)
    monkeypatch.setattr(HnswIndex, "build", None)
    again = Search(small_bundle, kept)
    assert np.array_equal(again.nearest("NOUN", noisy, 5.0), built)
    index = kept.index(
        small_bundle.class_rows("NOUN"),
        small_bundle.manifest.classes["NOUN"].ef,
        small_bundle.space_id,
        "NOUN",
    )
    assert isinstance(index, HnswIndex)


def test_every_class_answers_with_its_own_words(small_bundle: Bundle) -> None:
    search = Search(small_bundle)
    for name in small_bundle.manifest.classes:
        noisy = queries(small_bundle, ANY, 50, 1.0)
        assert np.isin(search.nearest(name, noisy, 1.0), small_bundle.class_members(name)).all()


def test_no_query_no_answer(small_bundle: Bundle) -> None:
    none = np.empty((0, small_bundle.manifest.dimensions), np.float32)
    assert len(ExactIndex(small_bundle.space).nearest(none)) == 0


def test_classes_the_bundle_lacks_fall_back(small_bundle: Bundle) -> None:
    search = Search(small_bundle)
    assert search.known_class("VERB") == "VERB"
    assert search.known_class("AUX+clitic") == "AUX+clitic"
    assert search.known_class("PUNCT") == "*"
    assert search.known_class("NOUN+clitic") == "*+clitic"


def test_threads_share_one_search(small_bundle: Bundle) -> None:
    search = Search(small_bundle)
    names = [name for name in small_bundle.manifest.classes if "clitic" not in name]
    expected = {name: Search(small_bundle).nearest(name, queries(small_bundle, name, 200, 5.0), 5.0)
                for name in names}  # fmt: skip
    wrong: list[str] = []

    def work() -> None:
        for name in names * 5:
            found = search.nearest(name, queries(small_bundle, name, 200, 5.0), 5.0)
            if not np.array_equal(found, expected[name]):
                wrong.append(name)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_agent_without_hnswlib_compares_with_every_word(
    small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)  # as if it were not installed
    noisy = queries(small_bundle, "NOUN", 300, 5.0)
    rows = small_bundle.class_rows("NOUN")
    found = small_bundle.class_members("NOUN")[nearest_by_distance(rows, noisy)]
    assert np.array_equal(Search(small_bundle).nearest("NOUN", noisy, 5.0), found)
    with pytest.raises(NotReady) as caught:
        HnswIndex.build(rows, 50)
    assert caught.value.subject == "graph"


def test_the_effort_is_the_manifests(small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, int]] = []
    monkeypatch.setattr(HnswIndex, "build", lambda rows, ef: asked.append((rows.shape, ef)))
    Search(small_bundle).index("NOUN", 5.0)
    assert asked == [(small_bundle.class_rows("NOUN").shape, 200)]


def test_a_search_opens_each_index_once(
    small_bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Search(small_bundle)
    noisy = queries(small_bundle, "NOUN", 1, 5.0)
    search.nearest("NOUN", noisy, 5.0)
    monkeypatch.setattr(Search, "_open", None)
    search.nearest("NOUN", noisy, 5.0)
