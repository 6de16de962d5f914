"""A device-trained adapter answers like any other, and the cloud hears nothing."""

from __future__ import annotations

import errno
import shutil
import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.bundle import adapter
from sottovoce.core.errors import InvalidInput, NotReady, QuotaExceeded
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.database import Store
from sottovoce.edge.tasks import local_inference as homes
from sottovoce.edge.tasks.adapters import share
from sottovoce.edge.tasks.customize import Learner
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured, opened, teach
from tests.support.encoder_bundle import with_some_files
from tests.support.plain_encoder import PlainEncoder, shape
from tests.support.stub_cloud import stub_cloud

PAIRS = (("river water", "wet"), ("stone salt", "dry"))


@pytest.fixture
def device(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Parts]:
    """A device that knows of no cloud."""
    monkeypatch.setattr(homes, "_open_encoder", PlainEncoder)
    with opened(configured(tmp_path, bundle=small_bundle_folder), lexicon_tagger) as running:
        yield running


def learn(
    device: Parts, *pairs: tuple[str, str], replace: bool = False, name: str = "desk"
) -> agent.Customization:
    learner = Learner(device.store, device.outbox, device.home, device.home.folder)
    examples = [agent.LabelledText(text=t, label=label) for t, label in pairs for _ in range(5)]
    return learner.learn(name, examples, replace=replace)


def ask(device: Parts, text: str, where: agent.Where = agent.WHERE_AUTO) -> agent.PredictResponse:
    return device.predictor.predict(agent.PredictRequest(text=text, adapter="desk", where=where))


def test_what_was_learnt_answers_and_nothing_is_charged(device: Parts) -> None:
    spent = device.ledger.spending()
    record = learn(device, *PAIRS)
    assert (record.local, record.examples) == (True, 10)
    assert [one.adapter for one in device.outbox.all()] == ["desk"]
    for where in (agent.WHERE_AUTO, agent.WHERE_DEVICE):
        found = ask(device, "the river", where)
        assert (found.label, found.answered) == ("wet", agent.WHERE_DEVICE)
        assert ask(device, "the stone", where).label == "dry"
    assert device.ledger.spending() == spent
    written = [f for f in device.home.folder.rglob("*") if f.is_file()]
    assert written
    assert not any(b"wet" in file.read_bytes() for file in written)  # nor the owner's words


def test_a_name_in_use_is_kept_unless_it_is_to_be_replaced(device: Parts) -> None:
    learn(device, *PAIRS)
    with pytest.raises(NotReady, match="--replace"):
        learn(device, ("river water", "blue"), ("stone salt", "grey"))
    assert ask(device, "the river").label == "wet"
    learn(device, ("river water", "blue"), ("stone salt", "grey"), replace=True)
    assert ask(device, "the river").label == "blue"
    device.home.roll_back("desk")
    assert ask(device, "the river").label == "wet"


def test_the_cloud_is_asked_for_nothing_of_it(device: Parts) -> None:
    learn(device, *PAIRS)
    for call in (
        lambda: ask(device, "the river", agent.WHERE_CLOUD),
        lambda: device.home.fetch("desk"),
        lambda: share(device.outbox, "desk"),
        lambda: device.adapters.roll_back(adapters.RollBackAdapterRequest(adapter="desk")),
    ):
        with pytest.raises(NotReady):
            call()
    device.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk"))
    assert device.outbox.all() == []
    assert not list(device.home.folder.rglob("*.safetensors"))


def test_what_nothing_can_be_learnt_from_is_refused(device: Parts) -> None:
    for pairs in ((PAIRS[0],), (("river", "wet"), (" ", "dry"))):
        with pytest.raises(InvalidInput):
            learn(device, *pairs)
    with pytest.raises(InvalidInput):
        learn(device, *PAIRS, name="../desk")
    with pytest.raises(InvalidInput, match="example 6: its label is too long"):
        learn(device, PAIRS[0], ("stone", "x" * 257))
    with pytest.raises(InvalidInput, match="example 6: the text is empty"):
        learn(device, PAIRS[0], (" ", "dry"))
    with pytest.raises(InvalidInput, match="1000 labels are too many for 5000 examples"):
        learn(device, *(("river", str(n)) for n in range(1000)))
    assert device.outbox.all() == []


def test_a_full_disk_changes_nothing(device: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    learn(device, *PAIRS)
    before = device.outbox.all()
    with monkeypatch.context() as patched:
        patched.setattr(AdapterFolder, "install", _full)
        with pytest.raises(QuotaExceeded):
            learn(device, ("river water", "blue"), ("stone salt", "grey"), replace=True)
    assert device.outbox.all() == before
    assert ask(device, "the river").label == "wet"
    learn(device, ("river water", "blue"), ("stone salt", "grey"), replace=True)
    assert ask(device, "the river").label == "blue"
    assert device.outbox.unfinished() == []
    assert not list(device.home.folder.rglob(".partial*"))


def test_a_record_that_cannot_be_kept_leaves_the_old_one_in_use(
    device: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn(device, *PAIRS)
    before = device.outbox.all()
    begun = type(device.store).transaction

    @contextmanager
    def full(store: Store) -> Iterator[sqlite3.Connection]:
        with begun(store) as transaction:
            yield transaction
            _full()

    with monkeypatch.context() as patched:
        patched.setattr(type(device.store), "transaction", full)
        with pytest.raises(QuotaExceeded):
            learn(device, ("river water", "blue"), ("stone salt", "grey"), replace=True)
    assert device.outbox.all() == before
    assert ask(device, "the river").label == "wet"
    assert len(list(device.home.folder.rglob("*.safetensors"))) == 1


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


@pytest.mark.parametrize("step", ["install", "_note"])
@pytest.mark.parametrize("first", [True, False])
def test_whenever_learning_is_killed_what_is_in_use_answers(
    device: Parts,
    tmp_path: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    first: bool,
) -> None:
    if not first:
        learn(device, *PAIRS)
    real, killed = getattr(AdapterFolder, step), []

    def as_a_kill_leaves_it() -> None:
        killed.append(tmp_path / f"killed {len(killed)}")
        shutil.copytree(tmp_path / "home", killed[-1] / "home", symlinks=True)

    def watched(folder: AdapterFolder, *given: object) -> None:
        as_a_kill_leaves_it()
        real(folder, *given)
        as_a_kill_leaves_it()

    with monkeypatch.context() as patched:
        patched.setattr(AdapterFolder, step, watched)
        learn(device, ("river water", "blue"), ("stone salt", "grey"), replace=True)
    assert len(killed) >= 2
    for folder in killed:
        with opened(configured(folder), lexicon_tagger) as again:
            if again.outbox.all():
                assert ask(again, "the river").label in ("wet", "blue")
            learn(again, ("river water", "red"), ("stone salt", "pink"), replace=not first)
            assert ask(again, "the river").label == "red"


def test_the_cloud_may_train_one_in_its_place_and_hears_nothing_of_it(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(homes, "_open_encoder", PlainEncoder)
    bundle = with_some_files(small_bundle_folder, tmp_path / "bundle")
    with stub_cloud(bundle) as cloud:
        config = configured(tmp_path, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
        with opened(config, lexicon_tagger) as device:
            learnt = learn(device, ("river water", "blue"), ("stone salt", "grey"))
            trained = teach(device, "desk", PAIRS, replace=True)
            assert learnt.adapter_id != trained.adapter_id
            found = ask(device, "the river")
            assert (found.label, found.answered) == ("wet", agent.WHERE_CLOUD)
            asked: list[training.GetAdapterRequest] = []
            get = device.cloud.get_adapter

            def noting(
                request: training.GetAdapterRequest,
            ) -> Iterator[training.GetAdapterResponse]:
                asked.append(request)
                return get(request)

            monkeypatch.setattr(device.cloud, "get_adapter", noting)
            device.home.fetch("desk")
            assert [(one.sha256, one.offset) for one in asked] == [("", 0)]
            with pytest.raises(NotReady):
                device.home.fetch(f"id:{learnt.adapter_id}")


def test_what_learning_needs_is_little_more_than_one_score_for_each_label() -> None:
    random = np.random.default_rng(0)
    states = random.standard_normal((1000, 16)).astype(np.float32)
    labels = [str(n % 200) for n in range(1000)]
    tracemalloc.start()
    try:
        adapter.fit(states, labels, shape("ab" * 32))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2 * 1000 * 200 * np.float32().nbytes


def test_the_best_head_is_found(device: Parts) -> None:
    random = np.random.default_rng(0)
    states = 7 * random.standard_normal((60, 64)).astype(np.float32)
    truth = states @ random.standard_normal((64, 3))
    labels = ["abc"[place] for place in truth.argmax(axis=1)]
    found = adapter.fit(states, labels, shape("ab" * 32))
    scores = states @ found.weight.T + found.bias
    assert ["abc"[place] for place in scores.argmax(axis=1)] == labels
    # At the best, what is left of the slope is the penalty's.
    size = np.linalg.norm(states, axis=1).mean()
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    wanted = np.eye(3)[["abc".index(label) for label in labels]]
    slope = (states / size).T @ (shares - wanted) / 60 + 1e-3 * size * found.weight.T
    assert np.abs(slope).max() < 1e-3
