"""Cancelled, rolled back, deleted: here at once, in the cloud as well, and said where it is not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from sottovoce.core.errors import NotFound, NotReady, Unavailable
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks import spending_report
from sottovoce.edge.tasks.parts import Parts
from sottovoce.edge.tasks.uploader import Uploader
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.agent import configured, customizer, opened
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until

WET, DRY = ("river", "stone"), ("stone", "river")
"""What an adapter learns to call wet, and what not."""


@contextmanager
def _device(folder: Path, bundle: Path, tagger: Tagger) -> Iterator[tuple[Parts, StubCloud]]:
    with stub_cloud(bundle) as cloud:
        config = configured(folder, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
        with opened(config, tagger) as device:
            yield device, cloud


@pytest.fixture
def both(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[Parts, StubCloud]]:
    with _device(tmp_path, small_bundle_folder, lexicon_tagger) as found:
        yield found


@pytest.fixture
def device(both: tuple[Parts, StubCloud]) -> Parts:
    return both[0]


@pytest.fixture
def cloud(both: tuple[Parts, StubCloud]) -> StubCloud:
    return both[1]


def _queue(
    device: Parts, words: Sequence[str] = WET, *, replace: bool = True
) -> agent.Customization:
    """Queue "desk", with the first word labelled "wet", at the level that moves no word."""
    settings = agent.CustomizationSettings(
        adapter="desk", privacy=agent.PrivacyOptions(level="light"), replace=replace
    )
    examples = [
        agent.LabelledText(text=f"{word} {word} was here", label=label)
        for word, label in zip(words, ("wet", "dry"), strict=True)
        for _ in range(5)
    ]
    return customizer(device).accept(settings, examples)


def _train(device: Parts, words: Sequence[str] = WET) -> agent.Customization:
    record = _queue(device, words)
    Uploader(device.cloud, device.outbox, first_wait=0.02).carry(record.id)
    until(lambda: device.outbox.get(record.id).state in ENDED)
    return device.outbox.get(record.id)


def _said_of_a_river(device: Parts) -> str:
    return device.predictor.predict(agent.PredictRequest(text="the river", adapter="desk")).label


def _roll_back(device: Parts, identity: str = "") -> agent.Customization:
    return device.adapters.roll_back(adapters.RollBackAdapterRequest(adapter="desk", id=identity))


def _cancel(device: Parts) -> agent.Customization:
    return device.adapters.cancel(adapters.CancelCustomizationRequest(adapter="desk"))


def _reached(device: Parts) -> bool:
    """Cancels; whether the cloud could be told."""
    try:
        _cancel(device)
    except Unavailable:
        return False
    return True


def test_a_name_in_use_is_refused_unless_it_is_to_be_replaced(device: Parts) -> None:
    _train(device)
    spent = device.ledger.spending()
    with pytest.raises(NotReady, match="already") as caught:
        _queue(device, DRY, replace=False)
    assert "--replace" in caught.value.fix
    assert device.ledger.spending() == spent
    assert len(device.outbox.all()) == 1


def test_a_name_that_was_never_trained_is_free(device: Parts, cloud: StubCloud) -> None:
    cloud.fail_training = "no"
    _train(device)
    _queue(device, replace=False)
    with pytest.raises(NotReady, match="already"):
        _queue(device, replace=False)  # now one is on its way
    _cancel(device)
    _queue(device, replace=False)


def test_what_was_replaced_can_be_had_back_and_given_up_again(device: Parts) -> None:
    first = _train(device, WET)
    second = _train(device, DRY)
    assert _said_of_a_river(device) == "dry"
    assert _roll_back(device).id == first.id
    assert _said_of_a_river(device) == "wet"
    assert device.outbox.get(second.id).set_aside
    assert device.outbox.adapter("desk")[1] == first.id
    with pytest.raises(NotReady, match="no version"):
        _roll_back(device)
    assert _roll_back(device, second.id[:8]).id == second.id
    assert _said_of_a_river(device) == "dry"
    assert not device.outbox.get(second.id).set_aside
    with pytest.raises(NotFound, match="0 versions"):
        _roll_back(device, "none")


def test_one_trained_after_a_rollback_is_the_present_one(device: Parts) -> None:
    first, _ = _train(device, WET), _train(device, DRY)
    _roll_back(device)
    third = _train(device, DRY)
    assert device.outbox.adapter("desk")[1] == third.id
    assert _roll_back(device).id == first.id  # and not the one that was set aside


def test_where_the_cloud_cannot_be_told_the_name_stands_for_what_it_did(
    device: Parts, cloud: StubCloud
) -> None:
    _train(device, WET)
    second = _train(device, DRY)
    cloud.stop()
    with pytest.raises(Unavailable):
        _roll_back(device)
    assert device.outbox.adapter("desk")[1] == second.id


def test_what_is_cancelled_before_it_left_never_leaves(device: Parts, cloud: StubCloud) -> None:
    record = _queue(device)
    assert _cancel(device).state == agent.CUSTOMIZATION_STATE_CANCELLED
    Uploader(device.cloud, device.outbox).carry(record.id)
    assert device.store.rows("SELECT * FROM outbox") == []
    assert device.outbox.unfinished() == []
    assert cloud.jobs == []
    assert _cancel(device).state == agent.CUSTOMIZATION_STATE_CANCELLED


def test_what_is_in_training_ends_in_the_cloud_too(device: Parts, cloud: StubCloud) -> None:
    cloud.may_train.clear()
    record = _queue(device)
    uploader = Uploader(device.cloud, device.outbox, first_wait=0.02)
    uploader.carry(record.id)
    until(lambda: device.outbox.get(record.id).state == agent.CUSTOMIZATION_STATE_TRAINING)
    _cancel(device)
    until(lambda: cloud.jobs[0].state == training.JOB_STATE_CANCELLED)
    # The thread that followed it writes nothing over what was decided.
    until(lambda: not uploader._threads)
    assert device.outbox.get(record.id).state == agent.CUSTOMIZATION_STATE_CANCELLED


def test_what_the_cloud_could_not_be_told_is_cancelled_here_and_told_later(
    device: Parts, cloud: StubCloud
) -> None:
    cloud.may_train.clear()
    record = _queue(device)
    uploader = Uploader(device.cloud, device.outbox, first_wait=0.02)
    uploader.carry(record.id)
    until(lambda: device.outbox.get(record.id).state == agent.CUSTOMIZATION_STATE_TRAINING)
    cloud.stop()
    with pytest.raises(Unavailable):
        _cancel(device)
    assert device.outbox.get(record.id).state == agent.CUSTOMIZATION_STATE_CANCELLED
    until(lambda: not uploader._threads)
    cloud.start()
    until(lambda: _reached(device))  # a channel that failed waits before it connects again
    until(lambda: cloud.jobs[0].state == training.JOB_STATE_CANCELLED)


def test_what_has_ended_cannot_be_cancelled(device: Parts) -> None:
    _train(device)
    with pytest.raises(NotReady, match="has ended"):
        _cancel(device)
    assert _said_of_a_river(device) == "wet"


def test_a_deleted_adapter_is_gone_on_both_sides_and_its_name_is_free(
    device: Parts, cloud: StubCloud
) -> None:
    _train(device, WET)
    _train(device, DRY)
    _queue(device)
    spent = device.ledger.spending()
    assert device.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk")) == 3
    assert device.outbox.all() == []
    assert device.store.rows("SELECT * FROM outbox") == []
    assert cloud.jobs == []
    with pytest.raises(NotFound, match="no such adapter"):
        _said_of_a_river(device)
    with pytest.raises(NotFound):
        device.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk"))
    assert device.ledger.spending() == spent
    told = spending_report.found(device.ledger.accounts).accounts
    assert not any(each.name for each in told)
    assert sum(each.spent for each in told) == spent.spent
    _queue(device, replace=False)


def test_a_deletion_that_was_cut_off_still_forgets_the_name(
    device: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    _train(device, WET)
    request = adapters.DeleteAdapterRequest(adapter="desk")
    with monkeypatch.context() as patched:
        patched.setattr(type(device.ledger.accounts), "forget", _cut_off)
        with pytest.raises(InterruptedError):
            device.adapters.delete(request)
    assert any(each.name for each in spending_report.found(device.ledger.accounts).accounts)
    with pytest.raises(NotFound):
        device.adapters.delete(request)
    assert not any(each.name for each in spending_report.found(device.ledger.accounts).accounts)


def _cut_off(*_: object) -> None:
    raise InterruptedError


def test_what_the_cloud_cannot_be_told_is_kept_unless_forced(
    device: Parts, cloud: StubCloud
) -> None:
    _train(device)
    cloud.stop()
    with pytest.raises(Unavailable):
        device.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk"))
    assert len(device.outbox.all()) == 1
    forced = adapters.DeleteAdapterRequest(adapter="desk", force=True)
    assert device.adapters.delete(forced) == 1
    assert device.outbox.all() == []
