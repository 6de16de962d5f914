"""The OpenAI endpoint's key: made once, read by the owner alone, and never guessed at."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError
from sottovoce.edge.http.endpoints import KEY_FILE, read_key


def test_a_key_is_made_once_and_for_the_owner_alone(tmp_path: Path) -> None:
    key = read_key(tmp_path, make=True)
    assert read_key(tmp_path, make=True) == key == read_key(tmp_path)
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert len(key) > 40
    other = tmp_path / "other"
    other.mkdir()
    assert read_key(other, make=True) != key


@pytest.mark.parametrize("held", ["", "short", "ünicode and long enough", "two\nlines and long"])
def test_what_is_no_key_is_refused(tmp_path: Path, held: str) -> None:
    path = tmp_path / KEY_FILE
    path.touch(mode=0o600)
    path.write_text(held, encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no key"):
        read_key(tmp_path, make=True)


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    read_key(tmp_path, make=True)
    (tmp_path / KEY_FILE).chmod(0o640)
    with pytest.raises(ConfigError, match="other users"):
        read_key(tmp_path, make=True)


def test_nobody_elses_file_is_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("a key that is long enough")
    (tmp_path / KEY_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError):
        read_key(tmp_path)


def test_without_one_it_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="sotto serve"):
        read_key(tmp_path)
