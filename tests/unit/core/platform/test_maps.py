"""What is mapped is read as it lies in its file, before its pages are given back and after."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.platform.memory import map_array, map_bytes, unload


def _resident(path: Path) -> int:
    """KiB of the file that this process holds."""
    smaps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"{path}\n(?:.*\n)*?Rss: +(\d+) kB", smaps)
    assert found, f"{path} is not mapped"
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc, as Linux has it")
def test_pages_are_given_back_and_taken_again(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((1000, 64)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "text").write_bytes(b"word\n" * 50_000)
    array, text = map_array(tmp_path / "rows.npy"), map_bytes(tmp_path / "text")
    for _ in range(2):
        assert np.array_equal(array, rows)
        assert text[:] == b"word\n" * 50_000
        files = [tmp_path / "rows.npy", tmp_path / "text"]
        assert all(_resident(file) > 200 for file in files)
        unload()
        assert [_resident(file) for file in files] == [0, 0]


def test_what_cannot_be_mapped_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        map_bytes(tmp_path / "empty")
    with pytest.raises(OSError, match="missing"):
        map_array(tmp_path / "missing")
    (tmp_path / "text").write_text("no array")
    with pytest.raises(ValueError, match="allow_pickle"):
        map_array(tmp_path / "text")


def test_a_map_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(10))
    map_array(tmp_path / "rows.npy")
    unload()
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(tmp_path) not in maps.read_text(errors="replace")
