"""Adapters that came home answer alone; the owner's "device" is a limit."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.manifest import ENCODER, MANIFEST
from sottovoce.core.errors import (
    BundleMismatch,
    DataLoss,
    InvalidInput,
    NotFound,
    NotReady,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client import retry
from sottovoce.edge.tasks import local_inference as homes
from sottovoce.edge.tasks.local_inference import who_answers
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support import plain_encoder
from tests.support import stub_cloud as downloads
from tests.support.agent import configured, opened, teach
from tests.support.encoder_bundle import with_some_files
from tests.support.plain_encoder import PlainEncoder
from tests.support.stub_cloud import StubCloud, stub_cloud

DEVICE, CLOUD, AUTO = agent.WHERE_DEVICE, agent.WHERE_CLOUD, agent.WHERE_AUTO
_OPEN_ENCODER = homes._open_encoder
FIRST = (("river water", "wet"), ("stone salt", "dry"))

Home = tuple[Parts, StubCloud, list[PlainEncoder]]


@pytest.fixture
def home(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Home]:
    """A device with the adapter "desk" trained in the cloud, and the encoders it opened."""
    encoders: list[PlainEncoder] = []

    def plain(bundle: object) -> PlainEncoder:
        encoders.append(PlainEncoder(bundle))
        return encoders[-1]

    monkeypatch.setattr(homes, "_open_encoder", plain)
    bundle = with_some_files(small_bundle_folder, tmp_path / "bundle")
    with _device(tmp_path, bundle, lexicon_tagger) as (device, cloud):
        train(device, FIRST)
        yield device, cloud, encoders


@contextmanager
def _device(folder: Path, bundle: Path, tagger: Tagger) -> Iterator[tuple[Parts, StubCloud]]:
    with stub_cloud(bundle) as cloud:
        config = configured(folder, bundle=bundle, SOTTO_CLOUD_ADDRESS=cloud.address)
        with opened(config, tagger) as device:
            yield device, cloud


def train(device: Parts, pairs: tuple[tuple[str, str], ...]) -> None:
    teach(device, "desk", pairs, replace=True)


def ask(device: Parts, text: str, where: agent.Where = AUTO) -> agent.PredictResponse:
    return device.predictor.predict(agent.PredictRequest(text=text, adapter="desk", where=where))


def unheard(device: Parts, cloud: StubCloud, do: Callable[[], None]) -> None:
    """Runs ``do`` with the cloud's server gone and the ledger watched."""
    spent = device.ledger.spending()
    cloud.stop()
    try:
        do()
    finally:
        cloud.start()
    assert device.ledger.spending() == spent


def test_at_home_nothing_leaves_and_nothing_is_charged(home: Home) -> None:
    device, cloud, encoders = home
    assert not device.home.fetch("desk").up_to_date

    def answered() -> None:
        found = ask(device, "the river")
        assert (found.label, found.answered, found.released_text) == ("wet", DEVICE, "")
        assert [s.label for s in found.scores] == ["wet", "dry"]
        assert sum(s.score for s in found.scores) == pytest.approx(1)
        assert ask(device, "the stone", DEVICE).label == "dry"

    unheard(device, cloud, answered)
    assert encoders[0].asked == ["the river", "the stone"]  # as typed
    assert len(encoders) == 1


def test_a_stream_is_answered_at_home_in_order(home: Home) -> None:
    device, cloud, _ = home
    device.home.fetch("desk")
    texts = ["the river", "the stone"] * 40

    def answered() -> None:
        requests = (
            agent.PredictStreamRequest(
                request_id=str(n), request=agent.PredictRequest(text=text, adapter="desk")
            )
            for n, text in enumerate(texts)
        )
        found = list(device.predictor.predict_stream(requests))
        assert [r.request_id for r in found] == [str(n) for n in range(len(texts))]
        assert [r.response.label for r in found] == ["wet", "dry"] * 40
        assert {r.response.answered for r in found} == {DEVICE}

    unheard(device, cloud, answered)


def test_a_stream_may_go_both_ways(home: Home) -> None:
    device, cloud, _ = home
    device.home.fetch("desk")
    wheres = [DEVICE, CLOUD, AUTO, CLOUD]
    requests = (
        agent.PredictStreamRequest(
            request=agent.PredictRequest(text="the river", adapter="desk", where=where)
        )
        for where in wheres
    )
    found = [r.response.answered for r in device.predictor.predict_stream(requests)]
    assert found == [DEVICE, CLOUD, DEVICE, CLOUD]
    assert len(cloud.received["PredictStream"]) == 2


def test_what_was_not_fetched_is_asked_of_the_cloud_unless_the_owner_said_device(
    home: Home,
) -> None:
    device, _, _ = home
    found = ask(device, "the river")
    assert found.answered == CLOUD
    assert found.released_text
    spent = device.ledger.spending()
    with pytest.raises(NotReady, match="sotto fetch"):
        ask(device, "the pond", DEVICE)
    assert device.ledger.spending() == spent


def test_the_cloud_answers_where_the_owner_says_so(home: Home) -> None:
    device, _, encoders = home
    device.home.fetch("desk")
    assert ask(device, "the river", CLOUD).answered == CLOUD
    assert [encoder.asked for encoder in encoders] == [[]]


def test_what_is_damaged_here_is_an_error_and_not_sent(home: Home) -> None:
    device, cloud, _ = home
    version = device.home.fetch("desk").version
    (file,) = device.config.agent.state.rglob(f"{version}.safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)

    def refused() -> None:
        with pytest.raises(DataLoss, match=version):
            ask(device, "the river")

    unheard(device, cloud, refused)
    assert not device.home.fetch("desk").up_to_date
    assert ask(device, "the river").answered == DEVICE


def test_a_list_that_was_lost_is_an_error_and_no_reason_to_send(home: Home) -> None:
    device, cloud, _ = home
    device.home.fetch("desk")
    (noted,) = device.config.agent.state.rglob("versions.json")
    noted.unlink()

    def refused() -> None:
        with pytest.raises(DataLoss, match=r"versions\.json"):
            ask(device, "the river")

    unheard(device, cloud, refused)


def test_an_encoder_that_went_is_an_error_and_no_reason_to_send(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, cloud, _ = home
    device.home.fetch("desk")
    monkeypatch.setattr(homes, "_open_encoder", _OPEN_ENCODER)
    folder = device.engine.current().bundle.folder
    shutil.rmtree(folder / ENCODER)
    os.utime(folder / MANIFEST)  # so that the device opens the bundle again

    def refused() -> None:
        with pytest.raises(NotReady, match="sotto pull --encoder"):
            ask(device, "the river")

    unheard(device, cloud, refused)


@pytest.mark.parametrize("where", [9, -1])
def test_nobody_known_is_asked(home: Home, where: int) -> None:
    device, cloud, _ = home
    device.home.fetch("desk")
    request = agent.PredictRequest(text="the river", adapter="desk")
    request.where = where  # type: ignore[assignment]  # of an app newer than this device

    def refused() -> None:
        with pytest.raises(InvalidInput) as refusal:
            device.predictor.predict(request)
        assert refusal.value.subject == "where"

    unheard(device, cloud, refused)


def test_what_would_not_run_here_is_not_put_in_use(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, _, _ = home
    first = device.home.fetch("desk").version
    train(device, (("river water", "blue"), ("stone salt", "grey")))

    def wider(examples: Iterable[tuple[str, str]], backbone: str) -> LocalAdapter:
        adapter = plain_encoder.counted(examples, backbone)
        return replace(adapter, weight=np.pad(adapter.weight, ((0, 0), (0, 1))))

    monkeypatch.setattr(downloads, "counted", wider)
    with pytest.raises(BundleMismatch):
        device.home.fetch("desk")
    monkeypatch.setattr(
        downloads, "counted", lambda examples, _: plain_encoder.counted(examples, "cd" * 32)
    )
    with pytest.raises(BundleMismatch):
        device.home.fetch("desk")
    assert device.home.versions("desk") == [(first, True)]
    assert ask(device, "the river").label == "wet"


def test_an_answer_at_home_looks_its_adapter_up_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, _, _ = home
    device.home.fetch("desk")
    looks, every = [], device.outbox.all
    monkeypatch.setattr(device.outbox, "all", lambda: looks.append(1) or every())
    assert ask(device, "the river").answered == DEVICE
    assert len(looks) == 1  # each decrypts all records


def test_a_new_version_takes_over_at_once_and_can_be_taken_back(home: Home) -> None:
    device, _, _ = home
    first = device.home.fetch("desk").version
    assert ask(device, "the river").label == "wet"
    train(device, (("river water", "blue"), ("stone salt", "grey")))
    assert ask(device, "the river", DEVICE).label == "wet"  # nobody asked for it yet
    second = device.home.fetch("desk").version
    assert ask(device, "the river").label == "blue"
    assert device.home.versions("desk") == [(second, True), (first, False)]
    assert device.home.roll_back("desk") == first
    assert ask(device, "the river").label == "wet"
    assert not device.home.fetch("desk").up_to_date
    assert ask(device, "the river").label == "blue"


def test_a_cloud_that_sends_nothing_for_ever_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, _, _ = home
    file = training.GetAdapterResponse(file=training.AdapterFile(sha256="ab" * 32, bytes=9))
    empty = itertools.chain([file], itertools.repeat(training.GetAdapterResponse(chunk=b"")))
    monkeypatch.setattr(device.cloud, "get_adapter", lambda _: empty)
    with pytest.raises(DataLoss, match="without bytes"):
        device.home.fetch("desk")
    assert device.home.versions("desk") == []


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "PAUSE", 0)


def test_fetching_again_what_is_there_carries_nothing(home: Home) -> None:
    device, cloud, _ = home
    version = device.home.fetch("desk").version
    cloud.fetched.clear()
    again = device.home.fetch("desk")
    assert (again.version, again.up_to_date) == (version, True)
    assert cloud.fetched["adapter"] == 0


def test_a_break_is_gone_on_from_where_it_was(home: Home) -> None:
    device, cloud, _ = home
    cloud.bytes_left = 700
    size = device.home.fetch("desk").bytes
    assert cloud.fetched["adapter"] == size
    assert ask(device, "the river").answered == DEVICE


def test_what_arrived_of_more_than_there_is_is_begun_anew(home: Home) -> None:
    device, _, _ = home
    version = device.home.fetch("desk").version
    (file,) = device.config.agent.state.rglob(f"{version}.safetensors")
    partial = file.with_name(f".partial-{version}.safetensors")
    partial.write_bytes(file.read_bytes() + b"more")
    file.write_bytes(b"damaged, so that it is fetched again")
    assert device.home.fetch("desk").version == version
    assert not partial.exists()
    assert ask(device, "the river").answered == DEVICE


def test_an_altered_one_is_refused_by_name_and_old_answers_go_on(home: Home) -> None:
    device, cloud, _ = home
    first = device.home.fetch("desk").version
    train(device, (("river water", "blue"), ("stone salt", "grey")))
    cloud.altered = "adapter"
    with pytest.raises(DataLoss, match=r"[0-9a-f]{64}\.safetensors arrived altered"):
        device.home.fetch("desk")
    assert not list(device.config.agent.state.rglob(".partial*"))
    assert device.home.versions("desk") == [(first, True)]
    assert ask(device, "the river").label == "wet"


def test_with_the_cloud_gone_old_answers_go_on(home: Home) -> None:
    device, cloud, _ = home
    device.home.fetch("desk")
    cloud.stop()
    with pytest.raises(Unavailable):
        device.home.fetch("desk")
    assert ask(device, "the river").label == "wet"
    cloud.start()


def test_what_the_provider_keeps_is_not_fetched(home: Home) -> None:
    device, cloud, _ = home
    cloud.refuses["GetAdapter"] = NotReady("this provider does not hand out adapters", fix="ask")
    with pytest.raises(NotReady, match="hand out"):
        device.home.fetch("desk")
    assert ask(device, "the river").answered == CLOUD


def test_labels_that_are_not_this_devices_are_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, cloud, _ = home
    cloud.learns = lambda pairs: [(text, "zzzz") for text, _ in pairs]
    train(device, (("river water", "wet"), ("stone salt", "dry")))
    with pytest.raises(SottovoceError, match="does not have"):
        device.home.fetch("desk")
    assert device.home.versions("desk") == []


def test_what_is_deleted_is_deleted_at_home_too(home: Home) -> None:
    device, _, _ = home
    version = device.home.fetch("desk").version
    ask(device, "the river", DEVICE)
    device.adapters.delete(adapters.DeleteAdapterRequest(adapter="desk"))
    assert not list(device.config.agent.state.rglob(f"*{version}*"))
    with pytest.raises(NotFound):
        ask(device, "the river", DEVICE)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (agent.PredictRequest(text="x"), InvalidInput),
        (agent.PredictRequest(text="x", adapter="nobody", where=DEVICE), NotFound),
        (agent.PredictRequest(text="", adapter="desk", where=DEVICE), InvalidInput),
        (agent.PredictRequest(text="x", adapter="id:../desk", where=DEVICE), InvalidInput),
    ],
)
def test_what_cannot_be_answered_is_refused(
    home: Home, request_: agent.PredictRequest, kind: type[SottovoceError]
) -> None:
    device, _, _ = home
    device.home.fetch("desk")
    with pytest.raises(kind):
        device.predictor.predict(request_)


UNSPECIFIED = agent.WHERE_UNSPECIFIED


@pytest.mark.parametrize(
    ("asked", "configured", "answers"),
    [
        (UNSPECIFIED, "device", DEVICE),
        (AUTO, "device", DEVICE),
        (DEVICE, "device", DEVICE),
        (UNSPECIFIED, "cloud", CLOUD),
        (AUTO, "cloud", AUTO),
        (DEVICE, "cloud", DEVICE),
        (UNSPECIFIED, "auto", AUTO),
        (CLOUD, "auto", CLOUD),
        (DEVICE, "auto", DEVICE),
    ],
)
def test_requests_choose_within_the_limit(
    asked: agent.Where, configured: str, answers: agent.Where
) -> None:
    assert who_answers(asked, configured) == answers


def test_the_cloud_is_refused_where_the_owner_said_device() -> None:
    with pytest.raises(NotReady, match=r"\[predict\]"):
        who_answers(CLOUD, "device")


@pytest.mark.parametrize("configured", ["device", "cloud", "auto"])
@pytest.mark.parametrize("unknown", [4, 9, -1])
def test_what_nobody_knows_is_refused(unknown: agent.Where, configured: str) -> None:
    with pytest.raises(InvalidInput):
        who_answers(unknown, configured)
