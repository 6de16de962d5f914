"""Conversations are found by name, answer or opening; bounded; sealed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss
from sottovoce.core.privacy.surrogate_table import Place
from sottovoce.edge.state import conversations
from sottovoce.edge.state.conversations import Conversation, Conversations, Said
from sottovoce.edge.state.database import NoiseKeys, Store

SYSTEM, USER, ASSISTANT, TOOL = 1, 2, 3, 4
FIRST: list[Said] = [(SYSTEM, "be kind"), (USER, "hello")]
ANNA = Place("Marcus", "Anna", "PERSON", "", "call")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def noted(kept: Conversations, held: Conversation, shown: str = "hi") -> Conversation:
    held.owners["marcus"] = ("given", "anna")
    held.observed([ANNA, Place("lamp", "lamp", "NOUN")])
    held.answers[kept.digest(shown)] = ("asked", "as it came")
    held.known[kept.digest("hello", shown)] = None
    kept.keep(held)
    return held


def test_it_is_found_by_name_by_answer_and_by_opening(store: Store) -> None:
    kept = Conversations(store, 30)
    held = noted(kept, kept.find("", FIRST, []))
    assert [*held.places] == [ANNA]  # what stands for itself is no secret worth keeping
    assert kept.find("", FIRST, []) == held
    assert kept.find("", [*FIRST, (ASSISTANT, "x"), (USER, "y")], []) == held
    for last in (TOOL, SYSTEM):
        assert kept.find("", [*FIRST, (ASSISTANT, ""), (last, "y")], []) == held
    assert kept.find("", [(USER, "something else")], [b"?", kept.digest("hello", "hi")]) == held
    for other in (
        kept.find("named", FIRST, [kept.digest("hello", "hi")]),
        kept.find("", [(SYSTEM, "be kind"), (USER, "hullo")], []),
        kept.find("", [(SYSTEM, "be kind!"), (USER, "hello")], []),
        kept.find(
            "",
            [(USER, "be kind"), (USER, "hello")],
            [kept.digest("hello", "ho"), kept.digest("hi")],
        ),
    ):
        assert other.name != held.name
        assert not other.places
    named = noted(kept, kept.find("named", FIRST, []), "ho")
    assert kept.find("named", [(USER, "anything")], []) == named
    assert len({named.session, held.session}) == 2


def test_one_that_opened_so_is_not_taken_for_one_with_the_same_answer(store: Store) -> None:
    kept = Conversations(store, 30)
    first = noted(kept, kept.find("", FIRST, []))
    second = noted(kept, kept.find("", [(USER, "hullo")], []))
    answers = [kept.digest("hello", "hi")]
    assert kept.find("", [*FIRST, (ASSISTANT, "hi"), (USER, "y")], answers).name == first.name
    assert kept.find("", [(USER, "dropped")], answers).name == second.name


def test_another_process_finds_it_and_two_at_once_lose_nothing(tmp_path: Path) -> None:
    store, other = Store.open(tmp_path), Store.open(tmp_path)
    kept = Conversations(store, 30)
    one, two = kept.find("c", FIRST, []), Conversations(other, 30).find("c", FIRST, [])
    noted(kept, one)
    two.owners["ida"] = ("given", "elena")
    Conversations(other, 30).keep(two)
    both = kept.find("c", FIRST, [])
    assert both.owners == {"marcus": ("given", "anna"), "ida": ("given", "elena")}
    assert both.places == {ANNA: None}
    with ThreadPoolExecutor(8) as pool:
        names = [f"name {n}" for n in range(16)]
        [*pool.map(lambda name: noted(kept, kept.find(name, FIRST, []), name), names)]
    assert all(kept.find(name, FIRST, []).places for name in names)
    store.close()
    other.close()


def test_it_is_sealed_and_in_its_place(store: Store, tmp_path: Path) -> None:
    kept = Conversations(store, 30)
    for name in ("one", "two"):
        noted(kept, kept.find(name, FIRST, []))
    on_disk = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [word for word in (b"Anna", b"Marcus", b"as it came", b"PERSON") if word in on_disk]
    (first, second) = store.rows("SELECT sealed FROM conversations")
    with store.transaction() as transaction:
        transaction.execute("UPDATE conversations SET sealed = ? WHERE sealed = ?", first + second)
    with pytest.raises(DataLoss):
        kept.find("two", FIRST, [])


def test_the_old_and_the_many_are_dropped(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MOST_CONVERSATIONS", 3)
    kept = Conversations(store, 2)
    for number, (day, there) in enumerate([(10, 1), (11, 2), (12, 3)]):
        monkeypatch.setattr(conversations.time, "time", lambda day=day: day * 86_400.0 + 5)
        noted(kept, kept.find(f"{number}", FIRST, []), f"{number}")
        assert len(store.rows("SELECT 1 FROM conversations")) == there
    noted(kept, kept.find("0", FIRST, []), "0")  # used again, so "1" is the oldest
    for number in (3, 4):
        noted(kept, kept.find(f"{number}", FIRST, []), f"{number}")
    found = [bool(kept.find(f"{number}", FIRST, []).places) for number in range(5)]
    assert found == [True, False, False, True, True]
    assert len(store.rows("SELECT 1 FROM answers")) == 3
    monkeypatch.setattr(conversations.time, "time", lambda: 15 * 86_400.0)
    noted(kept, kept.find("new", FIRST, []), "new")
    assert len(store.rows("SELECT 1 FROM conversations")) == 1


def test_one_conversation_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MOST_PLACES", 5)
    monkeypatch.setattr(conversations, "MOST_OWNERS", 5)
    monkeypatch.setattr(conversations, "MOST_KNOWN", 5)
    monkeypatch.setattr(conversations, "MOST_ANSWERED", 25)
    kept = Conversations(store, 30)
    held = kept.find("c", FIRST, [])
    held.observed(Place(f"X{n}", f"Y{n}", "PERSON") for n in range(9))
    held.owners |= {f"x{n}": ("given", f"y{n}") for n in range(9)}
    held.known |= {kept.digest(f"{n}"): None for n in range(9)}
    held.answers |= {kept.digest(f"{n}"): ("asked", "ten chars.") for n in range(9)}
    kept.keep(held)
    after = kept.find("c", FIRST, [])
    assert [place.true for place in after.places] == ["Y4", "Y5", "Y6", "Y7", "Y8"]
    assert [*after.owners] == ["x4", "x5", "x6", "x7", "x8"]
    assert [*after.known] == [kept.digest(f"{n}") for n in range(4, 9)]
    assert len(store.rows("SELECT 1 FROM answers")) == 5
    assert [*after.answers] == [kept.digest("7"), kept.digest("8")]


def test_where_nothing_is_to_be_kept_nothing_is(store: Store) -> None:
    kept = Conversations(store, 0)
    noted(kept, kept.find("c", FIRST, []))
    assert store.rows("SELECT * FROM conversations") == []


def test_what_is_too_old_or_not_to_be_kept_any_more_is_gone_before_anything_is_noted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = conversations.time.time()
    for days, later in ((30, 31), (0, 0)):
        kept = Conversations(store, 30)
        noted(kept, kept.find("c", FIRST, []))
        monkeypatch.setattr(conversations.time, "time", lambda later=later: now + later * 86_400.0)
        if later:  # nor is it given back by one that was there before
            assert not kept.find("c", FIRST, []).places
        Conversations(store, days)
        assert store.rows("SELECT 1 FROM conversations") == []
        assert store.rows("SELECT 1 FROM answers") == []
        monkeypatch.setattr(conversations.time, "time", lambda: now)


def test_what_was_found_before_the_key_was_rotated_does_not_come_back(store: Store) -> None:
    kept = Conversations(store, 30)
    held = noted(kept, kept.find("c", FIRST, []))
    NoiseKeys(store).rotate()
    kept.keep(held)
    assert store.rows("SELECT 1 FROM conversations") == []
    noted(kept, kept.find("c", FIRST, []))
    assert kept.find("c", FIRST, []).places
