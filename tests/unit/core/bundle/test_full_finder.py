"""The finder `full` reads long texts in windows, and takes only the files that it knows."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.encoder import TABLE
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.full_finder import (
    CASES,
    FullFinder,
    Pins,
    case_of,
    windows,
)
from sottovoce.core.bundle.manifest import ENCODER, FULL_FINDER, sha256
from sottovoce.core.bundle.tokenizer import VOCABULARY, bert_tokenizer
from sottovoce.core.bundle.word_list import RowFile
from sottovoce.core.errors import DataLoss, NotReady
from sottovoce.core.text.onnx_models import Session
from tests.support.encoder_bundle import offered, with_some_files

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "tell", "anna", "##s", "1", ".")


class Echo:
    """In place of onnxruntime: the probability of a person is 1 for "anna"."""

    def __init__(self) -> None:
        self.runs: list[int] = []

    def run(self, _: object, feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        ids = feed["embeddings"][:, 0].round().astype(int)
        self.runs.append(len(ids))
        likely = np.zeros((len(ids), 5), np.float32)
        likely[:, 1] = ids == TOKENS.index("anna")
        return [likely]


def finder(folder: Path, network: Echo) -> FullFinder:
    """Return the finder over a table with token ids as rows."""
    (folder / VOCABULARY).write_text("".join(f"{token}\n" for token in TOKENS))
    rows = np.zeros((len(TOKENS), 4 + 4), np.int8)
    rows[:, 0] = np.arange(len(TOKENS))
    rows[:, 4:] = np.array([1], "<f4").view(np.int8)
    np.save(folder / TABLE, rows)
    tokenizer = bert_tokenizer(folder / VOCABULARY)
    return FullFinder(tokenizer, RowFile(folder / TABLE), Session(network, "echo"), (2, 3))


def test_every_name_of_a_long_text_is_found_where_it_stands(tmp_path: Path) -> None:
    network = Echo()
    words = ["anna" if place % 7 == 3 else "tell" for place in range(1_000)]
    found = finder(tmp_path, network).find(words)
    assert found[:, 0].tolist() == [float(word == "anna") for word in words]
    assert len(network.runs) > 1
    assert max(network.runs) <= 160


def test_a_conversation_is_read_once_and_its_name_tells_nobody_else(tmp_path: Path) -> None:
    network = Echo()
    reader, random = finder(tmp_path, network), np.random.default_rng(3)
    words = random.choice(["tell", "anna", "annas"], 600).tolist()
    first = reader.find(words, "a")
    read = len(network.runs)
    assert np.array_equal(reader.find(words, "a"), first)
    assert len(network.runs) == read
    assert np.array_equal(reader.find(words, "b"), first)
    assert len(network.runs) == 2 * read
    for _ in range(2):
        assert np.array_equal(reader.find(words), first)
    assert len(network.runs) == 4 * read


def test_what_is_kept_of_conversations_is_bounded(tmp_path: Path) -> None:
    network = Echo()
    reader = finder(tmp_path, network)
    for turn in range(2_000):
        reader.find(["anna"], str(turn))
    reader.find(["anna"], "0")
    assert len(network.runs) == 2_001


def test_marks_and_the_ends_of_lines_are_no_names(tmp_path: Path) -> None:
    found = finder(tmp_path, Echo()).find(["Anna", "\n", ".", "1", "", "ANNAS"])
    assert found[:, 0].tolist() == [1, 0, 0, 0, 0, 1]


def test_a_word_of_many_pieces_does_not_take_the_room_of_others(tmp_path: Path) -> None:
    found = finder(tmp_path, Echo()).find(["." * 4_000 + "x", "anna"])
    assert found[1, 0] == 1


def test_any_piece_of_a_word_can_make_it_a_name(tmp_path: Path) -> None:
    assert finder(tmp_path, Echo()).find(["tell-anna", "tell"])[:, 0].tolist() == [1, 0]


@pytest.mark.parametrize("most", [158, 100])
def test_windows_overlap_and_decide_each_word_once(most: int) -> None:
    lengths = np.random.default_rng(5).integers(1, 17, 400).tolist()
    decided: list[int] = []
    for window in windows(lengths, most):
        decided += range(window.start, window.end)
        assert sum(lengths[window.first : window.last]) <= most
        assert window.first < window.start or not window.start
        assert window.end < window.last or window.end == len(lengths)
    assert decided == [*range(400)]


def test_a_text_that_fits_is_read_at_once() -> None:
    assert [*windows([2] * 79, 158)] == [(0, 79, 0, 79)]
    assert [*windows([], 158)] == []


def test_cases() -> None:
    words = ("may", "I", "Tom", "PRICE", "McDonald", "iPhone", "400", "!")
    assert [case_of(word) for word in words] == ["x", "X", "Xx", "XX", "Xx+", "x+", "0", ""]
    assert {case_of(word) for word in words} == {*CASES}


def test_a_bundle_without_the_finder_says_so(small_bundle: Bundle) -> None:
    with pytest.raises(NotReady, match="--encoder"):
        FullFinder.load(small_bundle)


def test_a_finder_that_was_not_fetched_says_so(tmp_path: Path, small_bundle_folder: Path) -> None:
    folder = with_some_files(small_bundle_folder, tmp_path / "bundle")
    (folder / ENCODER / FULL_FINDER).write_bytes(b"x")
    offered(folder)
    shutil.rmtree(folder / ENCODER)
    with pytest.raises(NotReady, match="sotto pull --encoder"):
        FullFinder.load(Bundle.open(folder))


def test_a_graph_that_the_provider_vouches_for_is_refused_if_this_package_does_not_know_it(
    tmp_path: Path, small_bundle_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest lists the altered graph, so only the package's own hash can tell."""
    folder = with_some_files(small_bundle_folder, tmp_path / "bundle")
    finder(folder / ENCODER, Echo())
    (folder / ENCODER / VOCABULARY).unlink()
    shutil.copyfile(folder / ENCODER / "encoder.onnx", folder / ENCODER / FULL_FINDER)
    offered(folder)
    network, table = sha256(folder / ENCODER / FULL_FINDER), sha256(folder / ENCODER / TABLE)
    known = Pins(network, table, sha256(folder / VOCABULARY), 2, 3)
    others = (
        replace(known, network="0" * 64),
        replace(known, table="0" * 64),
        replace(known, vocabulary="0" * 64),
    )
    for other in others:
        monkeypatch.setattr(Pins, "shipped", partial(lambda pins: pins, other))
        with pytest.raises(DataLoss, match="not the file that this version knows"):
            FullFinder.load(Bundle.open(folder))


def test_the_package_knows_one_finder() -> None:
    assert len({Pins.shipped().network, Pins.shipped().table, Pins.shipped().vocabulary}) == 3
