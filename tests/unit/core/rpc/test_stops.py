"""A stream ends at the first of its stop strings, wherever it is cut."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sottovoce.core.rpc.streams import Stops


def shown(stops: Sequence[str], pieces: Sequence[str]) -> str:
    stream = Stops(stops)
    return "".join(map(stream.feed, pieces)) + stream.finish()


@pytest.mark.parametrize(
    ("stops", "text", "left"),
    [
        ([], "all of it", "all of it"),
        (["\n\n"], "one\ntwo\n\nthree", "one\ntwo"),
        (["b", "ab"], "xxab", "xx"),
        (["abc"], "xab", "xab"),
        (["aab"], "aaab", "a"),
        (["x"], "x", ""),
    ],
)
def test_it_ends_before_the_first(stops: list[str], text: str, left: str) -> None:
    assert shown(stops, [text]) == left


@settings(max_examples=100)
@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=8),
)
def test_pieces_make_no_difference(stops: list[str], pieces: list[str]) -> None:
    text = "".join(pieces)
    ends = [(place + len(stop), place) for stop in stops if (place := text.find(stop)) >= 0]
    left = text[: min(ends)[1]] if ends else text
    assert shown(stops, [text]) == shown(stops, list(text)) == shown(stops, pieces) == left


def test_no_more_is_held_back_than_may_begin_one() -> None:
    stream = Stops(["stop here", "\n"])
    assert stream.feed("go on, st") == "go on, "
    assert stream.feed("and") == "stand"
    assert (stream.feed("\nx"), stream.found, stream.feed("more"), stream.finish()) == (
        *("", True, "", ""),
    )
