"""Corrections: sealed, bounded, and dropped with the end of what learnt them, or given back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss, NotReady, QuotaExceeded, Unavailable
from sottovoce.edge.state.corrections import Corrections, settle
from sottovoce.edge.state.database import NoiseKeys, Store
from sottovoce.edge.state.outbox import Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

MOST = 100
RIVER, STONE, POND = ("the river", "wet"), ("the stone", "dry"), ("the pond", "wet")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(tmp_path)
    yield opened
    opened.close()


def pairs(kept: Corrections, adapter: str = "desk") -> list[tuple[str, str]]:
    return [(each.text, each.label) for each in kept.waiting(adapter)]


def take(store: Store, customization: str = "one", adapter: str = "desk") -> None:
    kept = Corrections(store)
    numbers = [each.number for each in kept.waiting(adapter)]
    with store.transaction() as transaction:
        kept.take(transaction, numbers, customization)


def record(store: Store, identity: str, adapter: str = "desk") -> agent.Customization:
    made = agent.Customization(
        id=identity, adapter=adapter, state=agent.CUSTOMIZATION_STATE_UPLOADING
    )
    with store.transaction() as transaction:
        Outbox(store).insert(transaction, made, identity, training.CreateJobRequest(), {})
    return made


def test_the_newest_label_of_a_text_is_kept_and_each_adapter_has_its_own(store: Store) -> None:
    kept = Corrections(store)
    kept.keep("desk", [RIVER, STONE, RIVER], MOST)
    kept.keep("other", [(RIVER[0], "blue")], MOST)
    assert pairs(kept) == [RIVER, STONE]
    assert pairs(kept, "other") == [("the river", "blue")]
    kept.keep("desk", [POND, ("the river", "dry")], MOST)
    assert pairs(kept) == [STONE, POND, ("the river", "dry")]
    assert kept.count("desk") == (3, 0)
    assert kept.forget("desk", "the stone") == 1
    assert kept.forget("desk", "the stone") == 0
    assert pairs(kept) == [POND, ("the river", "dry")]
    assert kept.forget("desk") == 2
    assert (kept.count("desk"), kept.count("other")) == ((0, 0), (1, 0))


def test_they_are_sealed_and_in_their_places(store: Store, tmp_path: Path) -> None:
    kept = Corrections(store)
    kept.keep("desk", [RIVER, STONE], MOST)
    on_disk = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert not [word for word in (b"river", b"wet", b"desk") if word in on_disk]
    (first, second) = store.rows("SELECT sealed FROM corrections")
    with store.transaction() as transaction:
        transaction.execute("UPDATE corrections SET sealed = ? WHERE sealed = ?", first + second)
    for read in (lambda: pairs(kept), lambda: kept.keep("desk", [("the stone", "wet")], MOST)):
        with pytest.raises(DataLoss):
            read()
    assert kept.forget("desk") == 2  # what cannot be read can be forgotten


def end(store: Store, how: str) -> None:
    """End the correction of `RIVER` in one of the ways."""
    kept, outbox = Corrections(store), Outbox(store)
    if how == "forgotten":
        kept.forget("desk")
    elif how == "relabelled":
        kept.keep("desk", [(RIVER[0], "dry")], MOST)
    elif how == "removed":
        outbox.forget("one")
    else:
        take(store)
        ended = outbox.get("one")
        ended.state = agent.CUSTOMIZATION_STATE_SUCCEEDED
        assert outbox.save(ended)


@pytest.mark.parametrize("how", ["forgotten", "relabelled", "removed", "learnt"])
def test_what_is_forgotten_is_overwritten(store: Store, tmp_path: Path, how: str) -> None:
    record(store, "one")
    Corrections(store).keep("desk", [RIVER], MOST)
    ((sealed,),) = store.rows("SELECT sealed FROM corrections")
    assert any(sealed in file.read_bytes() for file in tmp_path.iterdir())
    end(store, how)
    assert not any(sealed in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize("how", ["relabelled", "removed", "learnt"])
def test_what_another_process_keeps_from_being_overwritten_ends_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    def busy(_: Store) -> None:
        raise Unavailable("another process is reading")

    monkeypatch.setattr(Store, "overwrite", busy)
    record(store, "one")
    Corrections(store).keep("desk", [RIVER], MOST)
    end(store, how)
    assert pairs(Corrections(store)) == ([(RIVER[0], "dry")] if how == "relabelled" else [])
    assert Outbox(store).unfinished() == (["one"] if how == "relabelled" else [])


def test_they_are_bounded_all_or_none(store: Store) -> None:
    kept = Corrections(store)
    kept.keep("desk", [RIVER], 2)
    with pytest.raises(QuotaExceeded, match="has 1 corrections, and may have 2") as refused:
        kept.keep("desk", [STONE, POND], 2)
    for named in ("desk --add --corrections", "desk --forget", "predict.corrections"):
        assert named in refused.value.fix
    assert pairs(kept) == [RIVER]
    kept.keep("desk", [STONE], 2)
    kept.keep("other", [STONE], 2)  # whose own they are
    take(store)
    with pytest.raises(QuotaExceeded):  # what is in training is there as well
        kept.keep("desk", [POND], 2)
    kept.keep("desk", [("the river", "dry")], 1)  # though there may be fewer now, no more are
    assert pairs(kept) == [("the river", "dry")]


def test_a_full_disk_keeps_none(store: Store) -> None:
    kept = Corrections(store)
    kept.keep("desk", [RIVER], MOST)
    store.overwrite()
    ((pages,),) = store.rows("PRAGMA page_count")
    store.rows(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(QuotaExceeded) as refused:
        kept.keep("desk", [(f"{n} {'long ' * 2_000}", "wet") for n in range(9)], MOST)
    assert refused.value.subject == "disk"
    assert pairs(kept) == [RIVER]


@pytest.mark.parametrize("learnt", [True, False])
def test_what_was_taken_is_dropped_once_it_was_learnt_else_given_back(
    store: Store, learnt: bool
) -> None:
    kept = Corrections(store)
    kept.keep("desk", [RIVER, STONE], MOST)
    take(store)
    assert (pairs(kept), kept.count("desk")) == ([], (0, 2))
    kept.keep("desk", [POND, RIVER, ("the stone", "wet")], MOST)  # one of them as it is
    assert pairs(kept) == [POND, ("the stone", "wet")]
    with store.transaction() as transaction:
        settle(transaction, "two", learnt=learnt)
        settle(transaction, "one", learnt=learnt)
    assert pairs(kept) == [*([] if learnt else [RIVER]), POND, ("the stone", "wet")]


def test_none_is_in_two_customisations(store: Store) -> None:
    kept = Corrections(store)
    for change in (
        lambda: kept.keep("desk", [("the stone", "wet")], MOST),
        lambda: kept.forget("desk", "the river"),
        lambda: take(store, "two"),
    ):
        kept.forget("desk")
        kept.keep("desk", [RIVER, STONE], MOST)
        read = [each.number for each in kept.waiting("desk")]
        change()
        before = kept.count("desk")
        with pytest.raises(NotReady, match="changed meanwhile"), store.transaction() as transaction:
            kept.take(transaction, read, "one")
        assert kept.count("desk") == before


@pytest.mark.parametrize(
    ("state", "left"),
    [
        (agent.CUSTOMIZATION_STATE_TRAINING, []),
        (agent.CUSTOMIZATION_STATE_FAILED, [RIVER]),
        (agent.CUSTOMIZATION_STATE_CANCELLED, [RIVER]),
        (agent.CUSTOMIZATION_STATE_SUCCEEDED, []),
    ],
)
def test_the_end_of_a_customisation_decides(
    store: Store, state: agent.CustomizationState, left: list[tuple[str, str]]
) -> None:
    kept, outbox = Corrections(store), Outbox(store)
    made = record(store, "one")
    kept.keep("desk", [RIVER], MOST)
    take(store)
    made.state = state
    outbox.save(made)
    assert pairs(kept) == left
    assert kept.count("desk")[1] == (state == agent.CUSTOMIZATION_STATE_TRAINING)
    made.state = agent.CUSTOMIZATION_STATE_SUCCEEDED  # seen by another thread, and too late
    assert outbox.save(made) == (state == agent.CUSTOMIZATION_STATE_TRAINING)
    assert pairs(kept) == left
    assert kept.count("desk")[1] == 0


def test_they_go_with_the_last_of_an_adapter(store: Store) -> None:
    kept, outbox = Corrections(store), Outbox(store)
    for identity, adapter in (("one", "desk"), ("two", "desk"), ("three", "other")):
        record(store, identity, adapter)
        kept.keep(adapter, [RIVER], MOST)
    outbox.forget("two")
    assert pairs(kept) == [RIVER]
    outbox.forget("one")
    assert (kept.count("desk"), kept.count("other")) == ((0, 0), (1, 0))


def test_another_key_of_the_noise_leaves_them(store: Store) -> None:
    Corrections(store).keep("desk", [RIVER], MOST)
    NoiseKeys(store).rotate()
    assert pairs(Corrections(store)) == [RIVER]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_killed_at_the_end_of_a_customisation_leaves_both_or_neither(
    tmp_path: Path, when: str
) -> None:
    store = Store.open(tmp_path)
    made = record(store, "one")
    Corrections(store).keep("desk", [RIVER], MOST)
    take(store)
    store.close()
    program = f"""
import os, pathlib
from sottovoce.edge.state import corrections, database, outbox
from sottovoce.v1 import edge_agent_pb2 as agent

store = database.Store.open(pathlib.Path({str(tmp_path)!r}))
settle = corrections.settle

def killed(*args, **kwargs):
    if {when!r} == "after":
        settle(*args, **kwargs)
    os.kill(os.getpid(), 9)

corrections.settle = killed
outbox.Outbox(store).save(agent.Customization(
    id="one", adapter="desk", state=agent.CUSTOMIZATION_STATE_SUCCEEDED
))
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    store = Store.open(tmp_path)
    kept, outbox = Corrections(store), Outbox(store)
    assert (kept.count("desk"), outbox.unfinished()) == ((0, 1), ["one"])
    made.state = agent.CUSTOMIZATION_STATE_SUCCEEDED
    outbox.save(made)
    assert (kept.count("desk"), outbox.unfinished()) == ((0, 0), [])
    store.close()
