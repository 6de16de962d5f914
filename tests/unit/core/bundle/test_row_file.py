"""Rows read one by one are those of the array."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.bundle.word_list import RowFile


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
