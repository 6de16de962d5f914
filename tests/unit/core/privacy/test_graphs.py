"""A graph is built here from the rows, kept under the device's key, and never loaded unverified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.privacy import search as graph_module
from sottovoce.core.privacy.noise import draw
from sottovoce.core.privacy.search import ExactIndex, Graphs, HnswIndex
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.edge.state.device_key import Seal

hnswlib = pytest.importorskip("hnswlib", reason="graphs need the extra `graph` (hnswlib)")

KEY, OTHER = (Seal(bytes([n]) * 32).name for n in (1, 2))
SPACE = "ab" * 32


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Rows (600, 8) of length 1."""
    return unit_rows(np.random.default_rng(5).standard_normal((600, 8)))


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of words of every graph that is built."""
    seen: list[int] = []
    true = HnswIndex.build

    def build(rows: np.ndarray, *how: int) -> HnswIndex:
        seen.append(len(rows))
        return true(rows, *how)

    monkeypatch.setattr(HnswIndex, "build", build)
    return seen


def _kept(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_equal_rows_give_equal_graphs(rows: np.ndarray) -> None:
    first = HnswIndex.build(rows, 50).to_bytes()
    assert first == HnswIndex.build(rows.copy(), 100).to_bytes()
    assert first != HnswIndex.build(rows[::-1], 50).to_bytes()


def test_a_graph_of_a_single_word_finds_it() -> None:
    found = HnswIndex.build(np.eye(1, 2, dtype=np.float32), 50).nearest(np.ones((3, 2), np.float32))
    assert found.tolist() == [0, 0, 0]


def test_more_effort_finds_more(rows: np.ndarray) -> None:
    noisy = rows + draw(np.random.default_rng(6), len(rows), 8, 8.0)
    truth = ExactIndex(rows).nearest(noisy)
    thin = HnswIndex.build(rows, 1, links=4, construction=20)
    found = {}
    for ef in (1, 10, 600):
        thin.set_effort(ef)
        found[ef] = float((thin.nearest(noisy) == truth).mean())
    assert found[1] < found[10] < found[600]
    assert found[600] > 0.95


def test_a_graph_is_built_once_and_then_read(
    rows: np.ndarray, tmp_path: Path, built: list[int]
) -> None:
    noisy = rows + draw(np.random.default_rng(6), len(rows), 8, 8.0)
    answers = [
        Graphs(tmp_path / "graphs", KEY).index(rows, 100, SPACE, "NOUN").nearest(noisy)
        for _ in range(2)
    ]
    assert built == [600]
    assert np.array_equal(*answers)
    (file,) = _kept(tmp_path)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "graphs").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", [0, 31, 32, 40, 200, -1])
def test_an_altered_graph_is_never_loaded(
    place: int, rows: np.ndarray, tmp_path: Path, built: list[int]
) -> None:
    graphs = Graphs(tmp_path / "graphs", KEY)
    graphs.index(rows, 100, SPACE, "NOUN")
    (file,) = _kept(tmp_path)
    sound = file.read_bytes()
    altered = bytearray(sound)
    altered[place] ^= 1
    file.write_bytes(altered)
    graphs.index(rows, 100, SPACE, "NOUN")
    assert built == [600, 600]
    assert file.read_bytes() == sound


def test_what_another_wrote_is_never_loaded(
    rows: np.ndarray, tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file cut short or empty, of another key, of another class, or a graph without a MAC."""
    graphs = Graphs(tmp_path / "graphs", KEY)
    graphs.index(rows, 100, SPACE, "NOUN")
    (file,) = _kept(tmp_path)
    own = file.read_bytes()
    Graphs(tmp_path / "other", OTHER).index(rows, 100, SPACE, "NOUN")
    (theirs,) = _kept(tmp_path / "other")
    graphs.index(rows[:300], 100, SPACE, "VERB")
    (verbs,) = (each for each in _kept(tmp_path / "graphs") if each != file)
    loaded: list[str] = []

    class Watched(hnswlib.Index):  # type: ignore[misc]
        def load_index(self, path: str, max_elements: int) -> None:
            loaded.append(path)
            super().load_index(path, max_elements=max_elements)

    monkeypatch.setattr(hnswlib, "Index", Watched)
    for wrong in (b"", own[:20], own[:32], own[:-1], own[32:], theirs.read_bytes()):
        file.write_bytes(wrong)
        graphs.index(rows, 100, SPACE, "NOUN")
        assert file.read_bytes() == own
    file.write_bytes(verbs.read_bytes())
    graphs.index(rows, 100, SPACE, "NOUN")
    assert loaded == []
    assert graphs.index(rows, 100, SPACE, "NOUN")
    assert len(loaded) == 1


def test_a_file_that_changes_while_it_is_verified_is_not_what_is_loaded(
    rows: np.ndarray, tmp_path: Path, built: list[int]
) -> None:
    changed: list[int] = []

    def mac(*parts: bytes) -> bytes:
        if len(parts) > 4 and (files := _kept(tmp_path)):  # once the content was read
            changed.append(files[0].write_bytes(b"\xff" * files[0].stat().st_size))
        return KEY(*parts)

    Graphs(tmp_path / "graphs", KEY).index(rows, 100, SPACE, "NOUN")
    found = Graphs(tmp_path / "graphs", mac).index(rows, 100, SPACE, "NOUN")
    assert changed
    assert built == [600]
    assert np.array_equal(found.nearest(rows), np.arange(600))


def test_the_name_of_a_class_is_no_path(rows: np.ndarray, tmp_path: Path) -> None:
    for name in ("../../outside", "/etc/passwd", "", "\0", "*" * 4_000):
        Graphs(tmp_path / "state" / "graphs", KEY).index(rows, 100, SPACE, name)
    assert [*tmp_path.iterdir()] == [tmp_path / "state"]
    assert len(_kept(tmp_path)) == 5
    assert {file.parent for file in _kept(tmp_path)} == {tmp_path / "state" / "graphs" / SPACE}


def test_graphs_of_another_bundle_go(rows: np.ndarray, tmp_path: Path) -> None:
    graphs = Graphs(tmp_path / "graphs", KEY)
    graphs.index(rows, 100, SPACE, "NOUN")
    graphs.index(rows, 100, "cd" * 32, "NOUN")
    assert [file.parent.name for file in _kept(tmp_path)] == ["cd" * 32]


def test_a_folder_that_is_a_file_costs_no_answer(rows: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "graphs").write_bytes(b"")
    found = Graphs(tmp_path / "graphs", KEY).index(rows, 100, SPACE, "NOUN")
    assert np.array_equal(found.nearest(rows), np.arange(600))


def test_a_graph_built_otherwise_is_built_again(
    rows: np.ndarray, tmp_path: Path, built: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    Graphs(tmp_path / "graphs", KEY).index(rows, 100, SPACE, "NOUN")
    monkeypatch.setattr(graph_module, "_FORM", b"another")
    Graphs(tmp_path / "graphs", KEY).index(rows, 100, SPACE, "NOUN")
    assert built == [600, 600]
