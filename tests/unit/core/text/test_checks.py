from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.errors import InvalidInput
from sottovoce.core.text import words


@given(st.text())
def test_decodes_what_utf8_encodes(text: str) -> None:
    assert words.decode(text.encode(), "f") == text.removeprefix("\ufeff")


def test_drops_a_byte_order_mark_where_the_file_begins() -> None:
    assert words.decode(b"\xef\xbb\xbfhello", "f") == "hello"
    assert words.decode(b"\xef\xbb\xbfhello", "f", begins=False) == "\ufeffhello"


@pytest.mark.parametrize(
    ("data", "offset"),
    [
        (b"caf\xe9 noir", 3),
        (b"\xff\xfeh\x00i\x00", 0),
        (b"ok \xed\xa0\x80", 3),
        (b"half \xe2\x82", 5),
    ],
)
def test_broken_utf8_names_the_byte_and_the_fix(data: bytes, offset: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        words.decode(data, "notes.txt")
    assert f"notes.txt is not UTF-8: byte {offset} " in caught.value.problem
    assert "iconv" in caught.value.fix
    assert caught.value.__cause__ is None
    assert caught.value.subject == "text"


@pytest.mark.parametrize("text", ["", " ", "\n\t \u2003"])
def test_no_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="empty") as caught:
        words.check_text(text)
    assert caught.value.subject == "text"


def test_the_limit_is_in_bytes_and_inclusive() -> None:
    words.check_text("a" * words.LARGEST_TEXT)
    words.check_text("é" * (words.LARGEST_TEXT // 2))
    for text in ("a" * (words.LARGEST_TEXT + 1), "é" * (words.LARGEST_TEXT // 2 + 1)):
        with pytest.raises(InvalidInput, match="bytes, at most 1048576") as caught:
            words.check_text(text)
        assert caught.value.subject == "text"


@pytest.mark.parametrize(("text", "first"), [("hello\0secret\0", 5), ("\0secret", 0)])
def test_a_nul_looks_binary(text: str, first: int) -> None:
    with pytest.raises(InvalidInput, match=f"character {first} is NUL") as caught:
        words.check_text(text)
    assert "secret" not in str(caught.value)
    assert caught.value.subject == "text"


def test_lone_surrogates_are_text() -> None:
    words.check_text("a \ud800 b")
