"""A disk that fills under the running daemon: each call says so, nothing is lost, it goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from sottovoce.core.errors import QuotaExceeded
from sottovoce.core.rpc.error_status import from_rpc_error
from sottovoce.core.text.tagger import Tagger
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_adapters_pb2_grpc as adapters_grpc
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc as agent_grpc
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_chat_pb2_grpc as chats_grpc
from tests.support.agent import configured, labelled, running
from tests.support.full_disk import FullDisk, in_memory, no_mounts
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.waiting import until

LIGHT = agent.PrivacyOptions(level="light")
ENOUGH = 2_000
"""Texts after which any disk of these is full: what is left of its last block is used up first."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[FullDisk]:
    """A small one, for the state."""
    if lacking := no_mounts():
        pytest.skip(lacking)
    with in_memory(tmp_path / "state", 8) as disk:
        yield disk


@pytest.fixture
def cloud(small_bundle_folder: Path) -> Iterator[StubCloud]:
    """A cloud that trains at once."""
    with stub_cloud(small_bundle_folder) as cloud:
        yield cloud


class _Device:
    """Calls to a daemon."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._agent: Any = agent_grpc.EdgeAgentServiceStub(channel)
        self._chats: Any = chats_grpc.EdgeChatServiceStub(channel)
        self._adapters: Any = adapters_grpc.EdgeAdaptersServiceStub(channel)

    def release(self, text: str) -> str:
        asked = agent.PrivatizeRequest(text=text, privacy=LIGHT)
        return str(self._agent.Privatize(asked, timeout=60).text)

    def predict(self, text: str) -> object:
        asked = agent.PredictRequest(text=text, adapter="desk", where=agent.WHERE_CLOUD)
        return self._agent.Predict(asked, timeout=60)

    def complete(self, text: str) -> object:
        return list(self._chats.Complete(chats.CompleteRequest(text=text), timeout=60))

    def customize(self, adapter: str) -> agent.Customization:
        settings = agent.CustomizationSettings(adapter=adapter, privacy=LIGHT, request_id=adapter)
        parts = (
            agent.CustomizeRequest(settings=settings),
            agent.CustomizeRequest(examples=agent.LabelledTexts(examples=labelled())),
        )
        taken: agent.Customization = self._agent.Customize(iter(parts), timeout=60).customization
        return taken

    def correct(self, adapter: str) -> object:
        kept = [adapters.Correction(text="The river was cold", label="outside")]
        asked = adapters.KeepCorrectionsRequest(adapter=adapter, corrections=kept)
        return self._adapters.KeepCorrections(asked, timeout=60)

    def releases(self) -> int:
        status = self._agent.GetStatus(agent.GetStatusRequest(), timeout=60)
        return int(status.ledger.releases)

    def _record(self, identity: str) -> agent.Customization:
        status = self._agent.GetStatus(agent.GetStatusRequest(), timeout=60)
        (record,) = [one for one in status.customizations if one.id == identity]
        return record

    def state(self, identity: str) -> int:
        return int(self._record(identity).state)

    def message(self, identity: str) -> str:
        return str(self._record(identity).message)


@pytest.fixture
def device(
    disk: FullDisk,
    cloud: StubCloud,
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
) -> Iterator[_Device]:
    """A daemon over the small disk."""
    config = configured(
        tmp_path,
        bundle=small_bundle_folder,
        SOTTO_AGENT_STATE=str(disk.folder),
        SOTTO_CLOUD_ADDRESS=cloud.address,
    )
    with (
        running(config, lexicon_tagger) as address,
        grpc.insecure_channel(address) as channel,
    ):
        yield _Device(channel)


def _fill(device: _Device, disk: FullDisk) -> dict[str, str]:
    """Fill the disk, the log's freed bytes included; return the daemon's last answer."""
    disk.fill()
    answers = {}
    for number in range(ENOUGH):
        text = f"The river of Anna{number} was cold"
        try:
            answers[text] = device.release(text)
        except grpc.RpcError:
            return answers
    raise AssertionError("it is not full")


def _refused(call: Callable[[], object]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, caught.value
    error = from_rpc_error(caught.value, peer="the agent")
    assert isinstance(error, QuotaExceeded)
    assert error.subject == "disk"
    assert "free some space" in error.fix


def test_nothing_leaves_that_cannot_be_charged_and_the_same_process_goes_on(
    device: _Device, disk: FullDisk, cloud: StubCloud
) -> None:
    _until_succeeded(device, device.customize("desk").id)
    before = {"The doctor was in": device.release("The doctor was in")}
    charged = device.releases() - 1
    answers = before | _fill(device, disk)
    text = "The doctor of Berta was cold"
    for call in (
        lambda: device.release(text),
        lambda: device.predict(text),
        lambda: device.complete(text),
        lambda: device.customize("more"),
        lambda: device.correct("desk"),
    ):
        _refused(call)
    for known, answer in answers.items():  # what was charged needs no room
        assert device.release(known) == answer
    assert device.releases() == charged + len(answers)
    assert cloud.asked == []
    assert len(cloud.jobs) == 1
    disk.free()
    answers[text] = device.release(text)
    assert {known: device.release(known) for known in answers} == answers
    assert device.releases() == charged + len(answers)
    assert device.predict(text)
    device.correct("desk")
    _until_succeeded(device, device.customize("more").id)
    assert _rows(disk.folder, "outbox") == 0


def test_what_ended_while_there_was_no_room_is_noted_by_itself(
    device: _Device, disk: FullDisk, cloud: StubCloud
) -> None:
    cloud.may_train.clear()
    taken = device.customize("desk")
    until(lambda: device.state(taken.id) == agent.CUSTOMIZATION_STATE_TRAINING)
    _fill(device, disk)
    cloud.may_train.set()
    until(lambda: "disk" in device.message(taken.id))
    assert device.state(taken.id) == agent.CUSTOMIZATION_STATE_TRAINING
    disk.free()
    _until_succeeded(device, taken.id)
    assert _rows(disk.folder, "customizations WHERE NOT finished") == 0
    assert _rows(disk.folder, "outbox") == 0


def _until_succeeded(device: _Device, identity: str) -> None:
    until(lambda: device.state(identity) == agent.CUSTOMIZATION_STATE_SUCCEEDED)


def _rows(folder: Path, of: str) -> int:
    with closing(sqlite3.connect(f"file:{folder}/agent.db?mode=ro", uri=True)) as database:
        ((number,),) = database.execute(f"SELECT count(*) FROM {of}")
    return int(number)
