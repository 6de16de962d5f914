"""The record of the last hour: off by default, small and short-lived."""

from __future__ import annotations

from collections.abc import Iterator

from sottovoce.edge.state.ledger import LONGEST, MOST, SECONDS, Purpose, Record, released_texts
from sottovoce.v1 import generation_pb2 as generation

CHAT = Purpose("chat", "m")


def test_nothing_is_kept_unless_it_is_on() -> None:
    def unasked() -> Iterator[str]:
        raise AssertionError
        yield

    record = Record()
    record.note(CHAT, "cloud:1", unasked())
    assert record.recent() == []


def test_an_hour_and_so_many_are_kept() -> None:
    now = 0.0
    record = Record(on=True, clock=lambda: now)
    record.note(CHAT, "cloud:1", ["x" * LONGEST, "", "the end"], "2 turns")
    (kept,) = record.recent()
    assert (kept.kind, kept.name, kept.to, kept.note) == ("chat", "m", "cloud:1", "2 turns")
    assert len(kept.text) == LONGEST
    assert kept.text.endswith("x\nthe end")
    now = SECONDS
    record.note(CHAT, "", ["second"])
    assert [(each.text[-6:], each.note) for each in record.recent()] == [
        ("second", ""),
        ("he end", "2 turns"),
    ]
    now += 1
    assert [each.text for each in record.recent()] == ["second"]
    for number in range(MOST + 10):
        record.note(CHAT, "", [str(number)])
    assert [each.text for each in record.recent()] == [str(n) for n in range(MOST + 9, 9, -1)]


def test_all_text_that_leaves_is_found_in_a_message() -> None:
    call = generation.ReleasedToolCall(released_name="find", released_arguments="{}")
    turn = generation.ReleasedTurn(released_text="hello", tool_calls=[call], tool_call_id="call_1")
    request = generation.GenerateRequest(bundle_id="b", released_stops=["!", "?"])
    tool = request.tools.add(released_name="find", released_description="what")
    tool.released_parameters = "[]"
    assert [*released_texts(request, turn)] == [
        "!",
        "?",
        "find",
        "what",
        "[]",
        "hello",
        "find",
        "{}",
    ]
