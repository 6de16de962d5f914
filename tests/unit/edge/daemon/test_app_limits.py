"""Limits and separation of apps, over a real socket."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sottovoce.core.rpc.address import answers
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.server import STREAMS
from sottovoce.edge.state.apps import Apps
from sottovoce.edge.state.database import Store
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.admission import ASKED, TEXT, Asked, asked, asking, refused, with_token
from tests.support.agent import configured, wanted
from tests.support.echo import echoing_cloud
from tests.support.stub_cloud import stub_cloud
from tests.support.waiting import until


@pytest.fixture
def device(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Asked]:
    config = asking(tmp_path, small_bundle_folder)
    with asked(config, lexicon_tagger) as found:
        yield found


def _streamed(number: int) -> Iterator[agent.PrivatizeStreamRequest]:
    for n in range(number):
        request = agent.PrivatizeRequest(text=f"{TEXT} {n}")
        yield agent.PrivatizeStreamRequest(request_id=str(n), request=request)


def test_calls_a_minute_are_counted_of_streams_as_well(device: Asked) -> None:
    often, rarely = device.app("often", calls_a_minute=100), device.app("rarely", calls_a_minute=5)
    for _ in range(2):
        assert device.agent.Privatize(ASKED, **rarely).text
    seen = []

    def ask() -> None:
        seen.extend(
            each.request_id for each in device.agent.PrivatizeStream(_streamed(9), **rarely)
        )

    info = refused(ask, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert info.reason == "OVERLOADED"
    assert seen == ["0", "1", "2"]
    retry = refused(
        lambda: device.agent.Privatize(ASKED, **rarely),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        error_details_pb2.RetryInfo,
    )
    assert retry.retry_delay.seconds > 0
    assert device.agent.Privatize(ASKED, **often).text


def test_a_day_s_worth_ends_in_a_quota_and_the_ledger_is_not_charged(device: Asked) -> None:
    mail = device.app(a_day=100.0)

    def ask() -> None:
        for n in range(100):
            device.agent.Privatize(agent.PrivatizeRequest(text=f"{TEXT} {n}"), **mail)

    failure = refused(ask, grpc.StatusCode.RESOURCE_EXHAUSTED, error_details_pb2.QuotaFailure)
    assert failure.violations[0].subject == "app"
    ((_, spent),) = device.apps.all()
    assert 0 < spent <= 100
    status = device.agent.GetStatus(agent.GetStatusRequest(), **device.owner)
    assert status.ledger.spent == spent
    assert device.agent.Privatize(agent.PrivatizeRequest(text=f"{TEXT} x"), **device.owner).text


def test_the_ledgers_limit_is_told_an_app_without_its_figures(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = asking(tmp_path, small_bundle_folder, SOTTO_PRIVACY_LEDGER_LIMIT="0.5")
    with asked(config, lexicon_tagger) as device:
        with pytest.raises(grpc.RpcError, match="ledger is spent") as caught:
            device.agent.Privatize(ASKED, **device.app())
        assert "0.5" not in caught.value.details()


def test_one_that_is_removed_loses_its_open_streams_too(device: Asked) -> None:
    mail, other = device.app(), device.app("other")
    requests: dict[str, queue.Queue[agent.PrivatizeStreamRequest | None]] = {}
    streams = {}
    with ExitStack() as after:
        for name, who in (("mail", mail), ("other", other)):
            requests[name] = queue.Queue()
            after.callback(requests[name].put, None)
            streams[name] = device.agent.PrivatizeStream(iter(requests[name].get, None), **who)
        [first] = _streamed(1)
        for name, stream in streams.items():
            requests[name].put(first)
            assert next(stream).response.text
        device.apps.remove("mail")
        for waiting in requests.values():
            waiting.put(first)
        refused(lambda: next(streams["mail"]), grpc.StatusCode.UNAUTHENTICATED)
        assert next(streams["other"]).response.text
    refused(lambda: device.agent.Privatize(ASKED, **mail), grpc.StatusCode.UNAUTHENTICATED)


def test_the_streams_of_an_app_give_way_to_each_other(device: Asked) -> None:
    mail, waiting = device.app(), queue.Queue[agent.PrivatizeStreamRequest | None]()
    health, request = health_pb2_grpc.HealthStub(device.channel), health_pb2.HealthCheckRequest()
    [first] = _streamed(1)
    stream = device.agent.PrivatizeStream(iter(waiting.get, None), **device.owner)
    try:
        waiting.put(first)
        assert next(stream).response.text
        watches = []
        for _ in range(STREAMS + 2):
            watches.append(health.Watch(request, **mail))
            assert next(watches[-1]).status == health_pb2.HealthCheckResponse.SERVING
        waiting.put(first)
        assert next(stream).response.text
        until(lambda: sum(each.done() for each in watches) == 3)
    finally:
        waiting.put(None)


def test_what_is_drawn_ahead_on_a_stream_is_the_apps_too(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    # These streams release on a thread of their own.
    with stub_cloud(small_bundle_folder) as cloud:
        config = asking(tmp_path, small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        with asked(config, lexicon_tagger) as device:
            settings = wanted(adapter="desk", epochs=1)
            texts = [
                agent.LabelledText(text=f"{TEXT} {n + 100}", label="ab"[n % 2]) for n in range(20)
            ]
            parts: list[Any] = [
                agent.CustomizeRequest(settings=settings),
                agent.CustomizeRequest(examples=agent.LabelledTexts(examples=texts)),
            ]
            device.agent.Customize(iter(parts), **device.owner)
            watch = agent.WatchCustomizationRequest(adapter="desk")
            assert [*device.agent.WatchCustomization(watch, **device.owner)]
            mail = device.app(a_day=100.0)
            requests = (
                agent.PredictStreamRequest(
                    request=agent.PredictRequest(text=f"{TEXT} {n}", adapter="desk")
                )
                for n in range(100)
            )
            failure = refused(
                lambda: [*device.agent.PredictStream(requests, **mail)],
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                error_details_pb2.QuotaFailure,
            )
            assert failure.violations[0].subject == "app"
            ((_, spent),) = device.apps.all()
            assert 0 < spent <= 100


@pytest.mark.parametrize("name", ["1", ""])
def test_conversations_are_each_apps_own_whatever_they_are_called(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, name: str
) -> None:
    def left(who: dict[str, Any]) -> str:
        turn = chats.ChatTurn(role=generation.ROLE_USER, text="Zelphira and Jorvane")
        events = [*device.chat.Chat(chats.ChatRequest(turns=[turn], conversation=name), **who)]
        assert "".join(each.delta_text for each in events) == turn.text
        return str(events[0].departed.turns[0].released_text)

    with echoing_cloud() as cloud:
        config = asking(tmp_path, small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        with asked(config, lexicon_tagger) as device:
            callers = (device.app(), device.app("other"), device.owner)
            assert len({left(who) for who in callers * 2}) == 3


def test_what_an_app_has_spent_outlives_a_kill(tmp_path: Path, bundle_folder: Path) -> None:
    config = configured(tmp_path, bundle=bundle_folder)
    path = Path(config.agent.listen.removeprefix("unix:"))
    environment = {
        **os.environ,
        "HOME": str(tmp_path / "home"),
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_AGENT_STATE": str(config.agent.state),
        "SOTTO_AGENT_APPS": "true",
        "SOTTO_BUNDLE_PATH": str(config.bundle.path),
    }
    token, spent = "", []
    for n in range(2):
        program = "from sottovoce.edge.cli import main; main(['serve'])"
        with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
            until(lambda: answers(path) or process.poll() is not None)
            with (
                grpc.insecure_channel(config.agent.listen) as channel,
                closing(Store.open(config.agent.state)) as store,
            ):
                apps = Apps(store)
                token = token or apps.new("mail", a_day=1e6)
                stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
                request = agent.PrivatizeRequest(text=f"Anna saw {n + 10} lamps by the pond")
                assert stub.Privatize(request, **with_token(token)).text
                process.kill()
                spent += [spent for _, spent in apps.all()]
    assert 0 < spent[0] < spent[1]
