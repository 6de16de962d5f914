"""Lines come as they are, one by one, and with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text.words import LARGEST_TEXT
from sottovoce.edge.cli.common import read_lines


def test_only_the_line_feed_is_taken_off(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes("\ufeffone \r\n\n\tzwei ü\x0b\u2028x\n\ufefflast".encode())
    lines = list(read_lines(file))
    assert [line.text for line in lines] == ["one \r", "", "\tzwei ü\x0b\u2028x", "\ufefflast"]
    assert [line.place for line in lines] == [f"{file}, line {n}" for n in (1, 2, 3, 4)]


def test_lines_before_a_broken_one_are_given(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"one\n\xff\n")
    lines = read_lines(file)
    assert next(lines).text == "one"
    with pytest.raises(InvalidInput, match="line 2 is not UTF-8: byte 0"):
        next(lines)


def test_the_longest_text_fits_on_a_line_and_no_longer_one(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"x" * LARGEST_TEXT + b"\ny\n")
    assert [len(line.text) for line in read_lines(file)] == [LARGEST_TEXT, 1]
    file.write_bytes(b"x" * (LARGEST_TEXT + 1) + b"\ny\n")
    with pytest.raises(InvalidInput, match="line 1 is longer"):
        list(read_lines(file))


def test_a_folder_is_no_input(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Is a directory"):
        list(read_lines(tmp_path))
