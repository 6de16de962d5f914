"""The word list reads as a list and a dictionary would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.bundle.word_list import RowFile, WordIds, WordList

lines = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words") / "words.txt"


@given(words=st.lists(lines, min_size=1, unique=True), other=lines)
def test_it_is_the_list_that_was_written(path: Path, words: list[str], other: str) -> None:
    path.unlink(missing_ok=True)  # a mapped file must not be written over
    path.write_bytes("".join(f"{word}\n" for word in words).encode())
    found = WordList(path)
    ids = WordIds(found)
    assert list(found) == words
    assert len(found) == len(ids) == len(words)
    assert [found[-1], found[0], found[1:3]] == [words[-1], words[0], words[1:3]]
    assert found.take(range(len(words))) == words
    assert [ids[word] for word in words] == list(range(len(words)))
    assert ids.of([*words, other, *words]).tolist() == [
        *range(len(words)),
        words.index(other) if other in words else -1,
        *range(len(words)),
    ]
    assert ids.get(other) == (words.index(other) if other in words else None)
    assert (other in ids) == (other in words)


def test_places_beyond_the_ends_and_unknown_words(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.write_text("eins\nzwei\neins\n")
    words = WordList(path)
    ids = WordIds(words)
    for place in (3, -4):
        with pytest.raises(IndexError):
            words[place]
    with pytest.raises(KeyError):
        ids["drei"]
    assert ids["eins"] == 0  # the first
    assert ids.of(["eins", "drei", "zwei"]).tolist() == [0, -1, 1]
    assert np.isin(words, ["zwei"]).tolist() == [False, True, False]


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32])
def test_rows_are_those_of_the_array(tmp_path: Path, dtype: type) -> None:
    whole = np.arange(300 * 7).reshape(300, 7).astype(dtype)
    np.save(tmp_path / "rows.npy", whole)
    rows = RowFile(tmp_path / "rows.npy")
    places = np.array([299, 0, 17, 17])
    assert rows[places].dtype == dtype
    assert np.array_equal(rows[places], whole[places])
    assert rows[places[:0]].shape == (0, 7)
    assert len(rows) == 300
    assert (rows.shape, rows.dtype) == ((300, 7), np.dtype(dtype))


def test_damage_is_seen_when_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.zeros((300, 7)))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="cut short"):
        RowFile(path)
    np.save(path, np.zeros(300))
    with pytest.raises(ValueError, match="no rows"):
        RowFile(path)
    np.save(path, np.zeros((300, 7)).T)
    with pytest.raises(ValueError, match="no rows"):
        RowFile(path)
    np.save(path, np.full((2, 2), None))
    with pytest.raises(ValueError, match="no rows"):
        RowFile(path)
    path.write_bytes(b"text, and no array")
    with pytest.raises(ValueError):  # noqa: PT011 - numpy's own words
        RowFile(path)
    with pytest.raises(FileNotFoundError):
        RowFile(tmp_path / "none.npy")


def test_what_is_hashed_is_what_is_read_whatever_takes_its_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.ones((3, 2), np.int8))
    known = sha256(path)
    rows = RowFile(path)
    np.save(tmp_path / "other.npy", np.zeros((3, 2), np.int8))
    (tmp_path / "other.npy").rename(path)
    assert rows.sha256() == known
    assert rows[[2]].tolist() == [[1, 1]]
