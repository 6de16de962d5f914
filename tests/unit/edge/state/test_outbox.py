"""Records and queued examples: durable, bounded where sent, under ids instead of names."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss, NotFound, NotReady, QuotaExceeded, SottovoceError
from sottovoce.core.rpc.limits import NAME
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.device_key import Seal
from sottovoce.edge.state.outbox import (
    LARGEST_BATCH,
    UNFINISHED_LIMIT,
    OpaqueIds,
    Outbox,
    Staged,
    adapter_id,
    label_ids,
)
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

UPLOADING = agent.CUSTOMIZATION_STATE_UPLOADING


def _insert(
    store: Store,
    outbox: Outbox,
    identity: str,
    texts: list[str],
    state: agent.CustomizationState = UPLOADING,
) -> agent.Customization:
    record = agent.Customization(
        id=identity, adapter="desk", adapter_id="desk", state=state, examples=len(texts)
    )
    job = training.CreateJobRequest(request_id=identity, adapter="desk")
    outbox.stage(identity, map(_staged, texts))
    with store.transaction() as transaction:
        outbox.insert(transaction, record, f"request {identity}", job, {})
        list(outbox.make_ready(transaction, identity, lambda label, labelled: label))
    return record


def _staged(text: str, label: str = "outside") -> Staged:
    example = training.PrivatizedExample(released_text=text, label=label)
    return Staged(example, b"digest of " + text.encode(), 2.0, b"known by")


def _queued(outbox: Outbox, identity: str, first: int = 0) -> list[training.PrivatizedExample]:
    return [e for batch in outbox.batches(identity, first) for e in batch.examples]


def test_records_survive_and_are_found(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    first = _insert(store, Outbox(store), "one", ["a"])
    second = _insert(store, Outbox(store), "two", ["a"])
    store.close()
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    assert outbox.get("one") == first
    assert outbox.find_request("request two") == second
    assert outbox.find_request("request three") is None
    assert outbox.newest("desk") == second
    assert outbox.all() == [second, first]
    assert outbox.job_request("one").adapter == "desk"
    with pytest.raises(NotFound):
        outbox.get("three")
    with pytest.raises(NotFound):
        outbox.newest("other")
    store.close()


def test_an_adapter_in_training_is_not_called_unknown(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    unknown = NotFound("no such adapter", fix="train it", subject="desk")
    for state, said in (
        (UPLOADING, NotReady),
        (agent.CUSTOMIZATION_STATE_TRAINING, NotReady),
        (agent.CUSTOMIZATION_STATE_SUCCEEDED, NotFound),
    ):
        _insert(store, outbox, f"in state {state}", ["a"], state)
        assert type(outbox.adapter("desk")[0].revealed(unknown)) is said
    store.close()


def test_batches_are_bounded_ordered_and_complete(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    texts = [f"{n} " + "x" * (60_000 if 100 <= n < 130 else 10) for n in range(300)]
    _insert(store, outbox, "one", texts)
    whole = _queued(outbox, "one")
    assert sorted(e.released_text for e in whole) == sorted(texts)
    for first in (0, 1, 64, 99, 299):
        batches = list(outbox.batches("one", first))
        assert batches[0].first_sequence == first
        assert [e for b in batches for e in b.examples] == whole[first:]
        for before, after in itertools.pairwise(batches):
            assert after.first_sequence == before.first_sequence + len(before.examples)
        assert all(len(b.examples) <= LARGEST_BATCH and b.ByteSize() < 1 << 20 for b in batches)
    assert list(outbox.batches("one", 300)) == []
    store.close()


def test_staged_examples_leave_only_once_they_are_ready(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    texts = [f"text {n}" for n in range(2 * LARGEST_BATCH + 1)]
    outbox.stage("one", map(_staged, texts))
    outbox.stage("other", [_staged("not of this call")])
    assert _queued(outbox, "one") == []
    with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
        list(outbox.make_ready(transaction, "one", lambda label, labelled: label))
        raise RuntimeError
    assert _queued(outbox, "one") == []
    with store.transaction() as transaction:
        assert set(outbox.labelled(transaction, "one")) == {b"known by"}
        charged = list(
            outbox.make_ready(transaction, "one", lambda *known: "/".join(map(str, known)))
        )
        assert list(outbox.labelled(transaction, "one")) == []
    assert sorted(charged) == sorted((b"digest of " + text.encode(), 2.0) for text in texts)
    ready = _queued(outbox, "one")
    assert sorted(e.released_text for e in ready) == sorted(texts)
    assert {e.label for e in ready} == {"outside/b'known by'"}
    assert [e.example_id for e in ready] == sorted({e.example_id for e in ready})
    outbox.unstage("one")
    outbox.unstage_all()
    assert _queued(outbox, "one") == ready
    assert store.rows("SELECT DISTINCT customization FROM outbox") == [("one",)]
    store.close()


def test_a_row_tells_nothing_of_its_label_and_takes_no_other(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    labels = ["in", "outside\0", "", "the garden behind the house " * 3]
    outbox.stage("one", [_staged("text", label) for label in labels])
    true = dict(store.rows("SELECT example, label FROM outbox"))
    assert {len(sealed) for sealed in true.values()} == {len(next(iter(true.values())))}
    with store.transaction() as transaction:
        list(outbox.make_ready(transaction, "one", lambda label, labelled: label))
    assert sorted(e.label for e in _queued(outbox, "one")) == sorted(labels)
    (example, ready), (other, _) = store.rows("SELECT example, label FROM outbox LIMIT 2")
    change = "UPDATE outbox SET label = ? WHERE example = ?"
    for sealed, row in ((true[example], example), (ready, other)):  # an earlier one, another's
        with store.transaction() as transaction:
            transaction.execute(change, (sealed, row))
        with pytest.raises(DataLoss):
            _queued(outbox, "one")
        with store.transaction() as transaction:
            transaction.execute(change, (ready, example))
    store.close()


def test_an_ended_customisation_keeps_its_record_and_drops_its_examples(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    record = _insert(store, outbox, "one", ["a", "b"])
    _insert(store, outbox, "two", ["c"])
    record.state = agent.CUSTOMIZATION_STATE_SUCCEEDED
    outbox.save(record)
    assert outbox.unfinished() == ["two"]
    assert store.rows("SELECT customization FROM outbox") == [("two",)]
    assert Outbox(store).get("one").state == agent.CUSTOMIZATION_STATE_SUCCEEDED
    store.close()


def test_watchers_see_every_state_and_the_end(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    record = _insert(store, outbox, "one", ["a"])
    seen: list[int] = []
    first = threading.Event()

    def watch() -> None:
        for state in outbox.watch("one", lambda: False):
            seen.append(state.state)
            first.set()

    thread = threading.Thread(target=watch)
    thread.start()
    assert first.wait(60)
    record.state = agent.CUSTOMIZATION_STATE_FAILED
    outbox.save(record)
    thread.join(60)
    assert not thread.is_alive()
    assert seen == [UPLOADING, agent.CUSTOMIZATION_STATE_FAILED]
    store.close()


def test_a_watcher_stops_when_told(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    _insert(store, outbox, "one", ["a"])
    stopped = threading.Event()
    thread = threading.Thread(target=lambda: list(outbox.watch("one", stopped.is_set)))
    thread.start()
    stopped.set()
    outbox.wake()
    thread.join(60)
    assert not thread.is_alive()
    store.close()


def test_too_many_unfinished_are_refused(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    outbox = Outbox(store)
    for number in range(UNFINISHED_LIMIT):
        outbox.check_room()
        _insert(store, outbox, f"n{number}", ["a"])
    with pytest.raises(QuotaExceeded):
        outbox.check_room()
    unfinished = outbox.unfinished()
    _insert(store, outbox, "ended before", [], agent.CUSTOMIZATION_STATE_SUCCEEDED)
    assert outbox.unfinished() == unfinished
    store.close()


SEAL = Seal(bytes(32))
OTHER = Seal(bytes([1] * 32))


def test_ids_are_names_the_cloud_takes_all_of_one_length() -> None:
    ids = {adapter_id(SEAL, f"adapter-{n}") for n in range(500)}
    assert len(ids) == 500
    assert {len(identity) for identity in ids} == {26}
    assert all(NAME.fullmatch(identity) for identity in ids)
    labels = label_ids(SEAL, "x", [f"label {n}" for n in range(1_000)])
    assert len(set(labels.values())) == 1_000
    assert {len(label) for label in labels.values()} == {16}


def test_the_same_name_is_the_same_id_on_one_device_alone() -> None:
    assert adapter_id(SEAL, "hiv-clinic") == adapter_id(SEAL, "hiv-clinic")
    assert adapter_id(SEAL, "hiv-clinic") != adapter_id(OTHER, "hiv-clinic")
    assert adapter_id(SEAL, "hiv-clinic") != adapter_id(SEAL, "hiv-clinic2")


def test_two_adapters_do_not_show_that_they_share_a_label() -> None:
    one, other = (label_ids(SEAL, adapter, ["positive"])["positive"] for adapter in "ab")
    assert one != other
    assert one != label_ids(OTHER, "a", ["positive"])["positive"]


def test_what_the_cloud_says_is_read_with_the_owners_names() -> None:
    ids = label_ids(SEAL, "x", ["sick", "well"])
    names = OpaqueIds("clinic", adapter_id(SEAL, "clinic"), {ids[n]: n for n in ids})
    said = f"label {ids['sick']!r} of {names.adapter_id} occurs once; see abcdefgh"
    assert names.reveal(said) == "label 'sick' of clinic occurs once; see abcdefgh"
    error = NotFound(said, fix=f"drop {ids['well']}", subject=names.adapter_id)
    revealed = names.revealed(error)
    assert type(revealed) is NotFound
    assert (revealed.fix, revealed.subject) == ("drop well", "clinic")
    assert "'sick' of clinic" in revealed.problem


def test_labels_are_turned_back_and_a_strange_one_is_no_answer() -> None:
    ids = label_ids(SEAL, "x", ["sick", "well"])
    names = OpaqueIds("clinic", "x", {ids[n]: n for n in ids})
    assert names.label(ids["sick"]) == "sick"
    for strange in ("sick", "", "x" * 16):
        with pytest.raises(SottovoceError, match="does not have"):
            names.label(strange)


def test_an_adapter_without_other_names_answers_with_its_own() -> None:
    assert OpaqueIds("id:desk", "desk", {}).label("wet") == "wet"
