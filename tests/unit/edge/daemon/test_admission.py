"""Who may call the daemon, and what: over a real socket, with tokens and their errors."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from sottovoce.core.errors import ConfigError, NotFound, PermissionDenied, Unauthenticated
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.cli.client import reach
from sottovoce.edge.state.own_secret import OWNER
from sottovoce.v1 import edge_adapters_pb2, edge_agent_pb2, edge_chat_pb2, edge_owner_pb2
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.admission import ASKED, Asked, asked, asking, refused, with_token
from tests.support.agent import configured

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


@pytest.fixture
def device(tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger) -> Iterator[Asked]:
    config = asking(tmp_path, small_bundle_folder)
    with asked(config, lexicon_tagger) as found:
        yield found


def test_a_call_without_a_token_is_nobodys_whatever_it_calls(device: Asked) -> None:
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
        info = refused(
            lambda metadata=metadata: device.agent.Privatize(ASKED, metadata=metadata, timeout=60),
            grpc.StatusCode.UNAUTHENTICATED,
        )
        assert info.reason == "UNAUTHENTICATED"
        assert "sotto apps new" in info.metadata["fix"]
    for service, method, streams in METHODS:
        shape = "stream_stream" if streams else "unary_stream"
        call = getattr(device.channel, shape)(f"/{service}/{method}")
        request = iter([b""]) if streams else b""
        refused(lambda c=call, r=request: [*c(r, timeout=60)], grpc.StatusCode.UNAUTHENTICATED)


def test_health_is_told_to_everybody_and_watched_by_who_has_a_token(device: Asked) -> None:
    stub, serving = health_pb2_grpc.HealthStub(device.channel), health_pb2.HealthCheckResponse
    request = health_pb2.HealthCheckRequest()
    assert stub.Check(request, timeout=60).status == serving.SERVING
    refused(lambda: next(stub.Watch(request, timeout=60)), grpc.StatusCode.UNAUTHENTICATED)
    for who in (device.app(), device.owner):
        watch = stub.Watch(request, **who)
        assert next(watch).status == serving.SERVING
        watch.cancel()


def test_the_owner_is_asked_for_nothing_else(device: Asked) -> None:
    assert device.agent.Privatize(ASKED, **device.owner).text
    assert device.agent.GetStatus(agent.GetStatusRequest(), **device.owner).HasField("ledger")
    path = device.config.agent.state / OWNER.file
    assert path.stat().st_mode & 0o777 == 0o600
    with reach(device.config) as remote:  # as the `sotto` command asks
        assert remote.agent.Privatize(ASKED).text
        assert remote.owner.GetSpending(edge_owner_pb2.GetSpendingRequest()).accounts
        with pytest.raises(NotFound):
            remote.adapters.DeleteAdapter(edge_adapters_pb2.DeleteAdapterRequest(adapter="none"))


@pytest.mark.parametrize(("service", "method", "streams"), METHODS)
def test_an_app_may_do_what_is_listed_and_no_more(
    device: Asked, service: str, method: str, streams: bool
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


def test_an_app_sees_nothing_of_the_owners_in_the_status(device: Asked) -> None:
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
        "openai",
    }


def test_no_token_is_told_or_logged(device: Asked, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    mail, wrong = device.app(calls_a_minute=1), with_token("sotto-app-" + "w" * 43)
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
    config = asking(tmp_path, small_bundle_folder, SOTTO_AGENT_LISTEN="127.0.0.1:0")
    with asked(config, lexicon_tagger) as device:
        refused(lambda: device.agent.Privatize(ASKED), grpc.StatusCode.UNAUTHENTICATED)
        assert device.agent.Privatize(ASKED, **device.owner).text
    assert "every user of this machine" not in caplog.text


def test_by_default_the_socket_asks_for_nothing(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = configured(tmp_path, bundle=small_bundle_folder)
    with asked(config, lexicon_tagger) as device:
        assert device.agent.Privatize(ASKED, timeout=60).text
        assert not (config.agent.state / OWNER.file).exists()


def test_an_owners_token_that_others_can_read_is_refused(device: Asked) -> None:
    (device.config.agent.state / OWNER.file).chmod(0o644)
    with pytest.raises(ConfigError, match="other users can read the owner's token"):
        reach(device.config)
    (device.config.agent.state / OWNER.file).unlink()
    with reach(device.config) as remote, pytest.raises(Unauthenticated):
        remote.agent.Privatize(ASKED)


def test_the_owners_token_is_another_at_each_start(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    config = asking(tmp_path, small_bundle_folder)
    with asked(config, lexicon_tagger) as device:
        stale = device.owner
    with asked(config, lexicon_tagger) as device:
        refused(lambda: device.agent.Privatize(ASKED, **stale), grpc.StatusCode.UNAUTHENTICATED)
        assert device.agent.Privatize(ASKED, **device.owner).text
        assert (config.agent.state / OWNER.file).stat().st_mode & 0o777 == 0o600
