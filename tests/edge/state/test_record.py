"""What left in the last hour: only where it is asked for, little, and not for long."""

from __future__ import annotations

from sottovoce.edge.state.purpose import Purpose
from sottovoce.edge.state.record import LONGEST, MOST, SECONDS, Record

CHAT = Purpose("chat", "m")


def test_nothing_is_kept_unless_it_is_on() -> None:
    record = Record()
    record.note(CHAT, "cloud:1", "a text")
    assert record.recent() == []


def test_an_hour_and_so_many_are_kept() -> None:
    now = 0.0
    record = Record(on=True, clock=lambda: now)
    record.note(CHAT, "cloud:1", "x" * LONGEST + "the end", "2 turns")
    (kept,) = record.recent()
    assert (kept.kind, kept.name, kept.to, kept.note) == ("chat", "m", "cloud:1", "2 turns")
    assert len(kept.text) == LONGEST
    assert kept.text.endswith("the end")
    now = SECONDS
    record.note(CHAT, "", "second")
    assert [each.text for each in record.recent()][:1] == ["second"]
    now += 1
    assert [each.text for each in record.recent()] == ["second"]
    for number in range(MOST + 10):
        record.note(CHAT, "", str(number))
    assert [each.text for each in record.recent()] == [str(n) for n in range(MOST + 9, 9, -1)]
