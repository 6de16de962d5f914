"""Who may call the daemon: over a real socket, with tokens, limits and their errors."""

from __future__ import annotations

import logging
import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from sottovoce.core.errors import ConfigError, NotFound, PermissionDenied, Unauthenticated
from sottovoce.core.text.tagger import Tagger
from sottovoce.core.wire.address import answers
from sottovoce.edge.cli.client import backend
from sottovoce.edge.config import Config
from sottovoce.edge.state.apps import Apps
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.own_secret import OWNER
from sottovoce.v1 import (
    edge_adapters_pb2,
    edge_agent_pb2,
    edge_agent_pb2_grpc,
    edge_chat_pb2,
    edge_chat_pb2_grpc,
    edge_owner_pb2,
)
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, running
from tests.support.echo import echoing_cloud
from tests.support.fake_cloud import fake_cloud
from tests.support.waiting import until

TEXT = "Anna was in the garden by the lake"
ASKED = agent.PrivatizeRequest(text=TEXT)
FOR_APPS = {
    "Privatize",
    "PrivatizeStream",
    "Predict",
    "PredictStream",
    "Embed",
    "EmbedStream",
    "GetStatus",
    "Chat",
    "Complete",
}
METHODS = [
    (service.full_name, method.name, method.client_streaming)
    for file in (edge_agent_pb2, edge_chat_pb2, edge_adapters_pb2, edge_owner_pb2)
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]


@dataclass
class Running:
    """A daemon that asks for tokens, and the apps it knows."""

    config: Config
    channel: grpc.Channel
    apps: Apps

    @property
    def agent(self) -> Any:
        return edge_agent_pb2_grpc.EdgeAgentStub(self.channel)  # type: ignore[no-untyped-call]

    @property
    def chat(self) -> Any:
        return edge_chat_pb2_grpc.EdgeChatStub(self.channel)  # type: ignore[no-untyped-call]

    @property
    def owner(self) -> dict[str, Any]:
        return _with(OWNER.read(self.config.agent.state))

    def app(self, name: str = "mail", **limits: Any) -> dict[str, Any]:
        """What a new app adds to its calls."""
        return _with(self.apps.new(name, **limits))


def _with(token: str) -> dict[str, Any]:
    return {"metadata": (("authorization", f"Bearer {token}"),), "timeout": 60}


@contextmanager
def _running(config: Config, tagger: Tagger) -> Iterator[Running]:
    with (
        running(config, tagger) as address,
        grpc.insecure_channel(address) as channel,
        closing(Store.open(config.agent.state)) as store,
    ):
        yield Running(config, channel, Apps(store))


@pytest.fixture
def device(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Running]:
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_AGENT_APPS="true")
    with _running(config, lexicon_tagger) as found:
        yield found


def _refused(call: Any, code: grpc.StatusCode, detail: type = error_details_pb2.ErrorInfo) -> Any:
    """The detail of an error that has the code."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is code, caught.value
    found = detail()
    status = rpc_status.from_call(caught.value)
    assert any(each.Unpack(found) for each in status.details)
    return found


def _streamed(number: int) -> Iterator[agent.PrivatizeStreamRequest]:
    for n in range(number):
        request = agent.PrivatizeRequest(text=f"{TEXT} {n}")
        yield agent.PrivatizeStreamRequest(request_id=str(n), request=request)


def test_a_call_without_a_token_is_nobodys_whatever_it_calls(device: Running) -> None:
    token = device.app()["metadata"][0][1]
    nobody: list[tuple[tuple[str, str], ...]] = [
        (),
        (("authorization", "Bearer "),),
        (("authorization", "Bearer sotto-app-" + "x" * 43),),
        (("authorization", token.removeprefix("Bearer ")),),
        (("authorization", token[:-1]),),
        (("authorization", token), ("authorization", token)),
        (("sottovoce-token", token),),
    ]
    for metadata in nobody:
        info = _refused(
            lambda metadata=metadata: device.agent.Privatize(ASKED, metadata=metadata, timeout=60),
            grpc.StatusCode.UNAUTHENTICATED,
        )
        assert info.reason == "UNAUTHENTICATED"
        assert "sotto apps new" in info.metadata["fix"]
    for service, method, streams in METHODS:
        shape = "stream_stream" if streams else "unary_stream"
        call = getattr(device.channel, shape)(f"/{service}/{method}")
        request = iter([b""]) if streams else b""
        _refused(lambda c=call, r=request: [*c(r, timeout=60)], grpc.StatusCode.UNAUTHENTICATED)


def test_health_asks_nobody(device: Running) -> None:
    stub = health_pb2_grpc.HealthStub(device.channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=60)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_the_owner_is_asked_for_nothing_else(device: Running) -> None:
    assert device.agent.Privatize(ASKED, **device.owner).text
    assert device.agent.GetStatus(agent.GetStatusRequest(), **device.owner).HasField("ledger")
    path = device.config.agent.state / OWNER.file
    assert path.stat().st_mode & 0o777 == 0o600
    with backend(device.config) as remote:  # as the `sotto` command asks
        assert remote.privatize(ASKED).text
        assert remote.spending().accounts
        with pytest.raises(NotFound):
            remote.delete(edge_adapters_pb2.DeleteAdapterRequest(adapter="none"))


@pytest.mark.parametrize(("service", "method", "streams"), METHODS)
def test_an_app_may_do_what_is_listed_and_no_more(
    device: Running, service: str, method: str, streams: bool
) -> None:
    shape = "stream_stream" if streams else "unary_stream"
    call = getattr(device.channel, shape)(f"/{service}/{method}")
    request = iter([b""]) if streams else b""
    answer = call(request, **device.app())
    with suppress(grpc.RpcError):
        list(answer)
    assert answer.code() is not grpc.StatusCode.UNAUTHENTICATED
    denied = answer.code() is grpc.StatusCode.PERMISSION_DENIED
    assert denied is (method not in FOR_APPS), answer
    if denied:
        info = error_details_pb2.ErrorInfo()
        assert any(each.Unpack(info) for each in rpc_status.from_call(answer).details)
        assert info.reason == PermissionDenied.reason
        assert info.metadata["subject"] == f"{service}/{method}"


def test_an_app_sees_nothing_of_the_owners_in_the_status(device: Running) -> None:
    device.agent.Privatize(ASKED, **device.owner)
    status = device.agent.GetStatus(agent.GetStatusRequest(), **device.app())
    assert status.bundle_id
    assert status.levels
    assert not status.HasField("ledger")
    assert not status.cloud_address
    assert not status.customizations
    told = {field.name for field, _ in status.ListFields()}
    assert told <= {
        "version",
        "bundle_id",
        "backbone",
        "levels",
        "default_level",
        "default_mechanism",
        "embed_levels",
        "doorway",
    }


def test_calls_a_minute_are_counted_of_streams_as_well(device: Running) -> None:
    often, rarely = device.app("often", calls_a_minute=100), device.app("rarely", calls_a_minute=5)
    for _ in range(2):
        assert device.agent.Privatize(ASKED, **rarely).text
    seen = []

    def ask() -> None:
        seen.extend(
            each.request_id for each in device.agent.PrivatizeStream(_streamed(9), **rarely)
        )

    info = _refused(ask, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert info.reason == "OVERLOADED"
    assert seen == ["0", "1", "2"]
    retry = _refused(
        lambda: device.agent.Privatize(ASKED, **rarely),
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        error_details_pb2.RetryInfo,
    )
    assert retry.retry_delay.seconds > 0
    assert device.agent.Privatize(ASKED, **often).text


def test_a_day_s_worth_ends_in_a_quota_and_the_ledger_is_not_charged(device: Running) -> None:
    mail = device.app(a_day=100.0)

    def ask() -> None:
        for n in range(100):
            device.agent.Privatize(agent.PrivatizeRequest(text=f"{TEXT} {n}"), **mail)

    failure = _refused(ask, grpc.StatusCode.RESOURCE_EXHAUSTED, error_details_pb2.QuotaFailure)
    assert failure.violations[0].subject == "app"
    ((_, spent),) = device.apps.all()
    assert 0 < spent <= 100
    status = device.agent.GetStatus(agent.GetStatusRequest(), **device.owner)
    assert status.ledger.spent == spent
    assert device.agent.Privatize(agent.PrivatizeRequest(text=f"{TEXT} x"), **device.owner).text


def test_the_ledgers_limit_is_told_an_app_without_its_figures(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(
        tmp_path,
        bundle=small_bundle_folder,
        SOTTO_AGENT_APPS="true",
        SOTTO_PRIVACY_LEDGER_LIMIT="0.5",
    )
    with _running(config, lexicon_tagger) as device:
        with pytest.raises(grpc.RpcError, match="ledger is spent") as caught:
            device.agent.Privatize(ASKED, **device.app())
        assert "0.5" not in caught.value.details()


def test_one_that_is_removed_loses_its_open_streams_too(device: Running) -> None:
    mail, other = device.app(), device.app("other")
    requests: dict[str, queue.Queue[agent.PrivatizeStreamRequest]] = {}
    streams = {}
    for name, who in (("mail", mail), ("other", other)):
        requests[name] = queue.Queue()
        streams[name] = device.agent.PrivatizeStream(iter(requests[name].get, None), **who)
    [first] = _streamed(1)
    for name, stream in streams.items():
        requests[name].put(first)
        assert next(stream).response.text
    device.apps.remove("mail")
    for waiting in requests.values():
        waiting.put(first)
    _refused(lambda: next(streams["mail"]), grpc.StatusCode.UNAUTHENTICATED)
    assert next(streams["other"]).response.text
    for waiting in requests.values():
        waiting.put(None)  # type: ignore[arg-type]
    _refused(lambda: device.agent.Privatize(ASKED, **mail), grpc.StatusCode.UNAUTHENTICATED)


def test_what_is_drawn_ahead_on_a_stream_is_the_apps_too(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    # These streams release on a thread of their own.
    with fake_cloud() as cloud:
        config = configured(
            tmp_path,
            bundle=small_bundle_folder,
            SOTTO_AGENT_APPS="true",
            SOTTO_CLOUD_ADDRESS=cloud.address,
        )
        with _running(config, lexicon_tagger) as device:
            settings = agent.CustomizationSettings(adapter="desk", epochs=1)
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
            asked = (
                agent.PredictStreamRequest(
                    request=agent.PredictRequest(text=f"{TEXT} {n}", adapter="desk")
                )
                for n in range(100)
            )
            failure = _refused(
                lambda: [*device.agent.PredictStream(asked, **mail)],
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
        config = configured(
            tmp_path,
            bundle=small_bundle_folder,
            SOTTO_AGENT_APPS="true",
            SOTTO_CLOUD_ADDRESS=cloud.address,
        )
        with _running(config, lexicon_tagger) as device:
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
                stub = edge_agent_pb2_grpc.EdgeAgentStub(channel)  # type: ignore[no-untyped-call]
                asked = agent.PrivatizeRequest(text=f"Anna saw {n + 10} lamps by the lake")
                assert stub.Privatize(asked, **_with(token)).text
                process.kill()
                spent += [spent for _, spent in apps.all()]
    assert 0 < spent[0] < spent[1]


def test_no_token_is_told_or_logged(device: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    mail, wrong = device.app(calls_a_minute=1), _with("sotto-app-" + "w" * 43)
    assert device.agent.Privatize(ASKED, **mail).text
    for who in (mail, wrong):
        with pytest.raises(grpc.RpcError) as caught:
            device.agent.Privatize(ASKED, **who)
        assert who["metadata"][0][1][-20:] not in f"{caught.value.details()} {caught.value}"
    for each in (mail, wrong, device.owner):
        assert each["metadata"][0][1][-20:] not in caplog.text


def test_loopback_without_tls_is_closed_to_other_users(
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = configured(
        tmp_path,
        bundle=small_bundle_folder,
        SOTTO_AGENT_APPS="true",
        SOTTO_AGENT_LISTEN="127.0.0.1:0",
    )
    with _running(config, lexicon_tagger) as device:
        _refused(lambda: device.agent.Privatize(ASKED), grpc.StatusCode.UNAUTHENTICATED)
        assert device.agent.Privatize(ASKED, **device.owner).text
    assert "every user of this machine" not in caplog.text


def test_by_default_the_socket_asks_for_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with _running(config, lexicon_tagger) as device:
        assert device.agent.Privatize(ASKED, timeout=60).text
        assert not (config.agent.state / OWNER.file).exists()


def test_an_owners_token_that_others_can_read_is_refused(device: Running) -> None:
    (device.config.agent.state / OWNER.file).chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read the owner's token"):
        backend(device.config)
    (device.config.agent.state / OWNER.file).unlink()
    with backend(device.config) as remote, pytest.raises(Unauthenticated):
        remote.privatize(ASKED)
