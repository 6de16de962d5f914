"""Access to the daemon over a real socket: tokens, rights and errors."""

from __future__ import annotations

import grp
import logging
import os
import shutil
import stat
import tempfile
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
from sottovoce.edge.config import Config, load
from sottovoce.edge.server import folder_for
from sottovoce.edge.state.apps import OWNER
from sottovoce.v1 import (
    edge_adapters_pb2,
    edge_agent_pb2,
    edge_agent_pb2_grpc,
    edge_chat_pb2,
    edge_owner_pb2,
)
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.admission import ASKED, Asked, asked, asking, refused, with_token
from tests.support.agent import configured, running

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


OWN = grp.getgrgid(os.getgid()).gr_name


@pytest.fixture
def passable() -> Iterator[Path]:
    """A folder that everyone can pass, unlike those that pytest makes."""
    folder = Path(tempfile.mkdtemp(prefix="sotto-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def _config(folder: Path, socket: Path, **environ: str) -> Config:
    places = {
        "SOTTO_AGENT_LISTEN": f"unix:{socket}",
        "SOTTO_AGENT_APPS": "true",
        "SOTTO_AGENT_GROUP": OWN,
    }
    return configured(folder, **(places | environ))


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_socket_is_open_to_the_group_and_asks_for_a_token(
    tmp_path: Path, passable: Path, lexicon_tagger: Tagger
) -> None:
    socket = passable / "run" / "agent.sock"
    with running(_config(tmp_path, socket), lexicon_tagger) as address:
        assert (_mode(socket), _mode(socket.parent)) == (0o660, 0o710)
        assert socket.stat().st_gid == socket.parent.stat().st_gid == os.getgid()
        with grpc.insecure_channel(address) as channel:
            stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
            with pytest.raises(grpc.RpcError) as caught:
                stub.GetStatus(agent.GetStatusRequest(), timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    with running(_config(tmp_path, socket), lexicon_tagger):  # in the folder that is there now
        assert _mode(socket) == 0o660


@pytest.mark.parametrize(
    "environ",
    [{"SOTTO_AGENT_APPS": "false"}, {"SOTTO_AGENT_LISTEN": "127.0.0.1:8470"}],
)
def test_a_group_goes_with_tokens_and_a_unix_socket(environ: dict[str, str]) -> None:
    given = {"HOME": "/nowhere", "SOTTO_AGENT_APPS": "true", "SOTTO_AGENT_GROUP": OWN}
    load(environ=given)
    with pytest.raises(ConfigError) as caught:
        load(environ=given | environ)
    assert caught.value.subject == "agent.group"


def test_a_group_that_is_not_there_is_named(tmp_path: Path, passable: Path) -> None:
    config = _config(tmp_path, passable / "agent.sock", SOTTO_AGENT_GROUP="no-such-group")
    with pytest.raises(ConfigError, match="no group no-such-group"), running(config):
        pass


def test_a_folder_that_keeps_the_group_out_is_named_and_stays(
    tmp_path: Path, passable: Path
) -> None:
    (passable / "mine").mkdir(mode=0o700)
    config = _config(tmp_path, passable / "mine" / "run" / "agent.sock")
    with pytest.raises(ConfigError, match=r"cannot pass .*mine") as caught, running(config):
        pass
    assert "RuntimeDirectory=" in caught.value.fix
    assert "chmod" not in caught.value.fix  # it may be anything, the home folder for one
    assert _mode(passable / "mine") == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o773, 0o775])
def test_a_folder_in_which_others_can_put_a_socket_is_refused(
    tmp_path: Path, passable: Path, mode: int
) -> None:
    folder = passable / "shared"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigError, match=f"{folder} can be written"):
        folder_for(folder / "agent.sock", os.getgid(), tmp_path)
    assert list(folder.iterdir()) == []
    assert _mode(folder) == mode
    config = _config(tmp_path, folder / "agent.sock")
    with pytest.raises(ConfigError), running(config):
        pass
    assert list(folder.iterdir()) == []


def test_nor_may_others_replace_a_folder_on_the_way(tmp_path: Path, passable: Path) -> None:
    between = passable / "between"
    (between / "run").mkdir(parents=True)
    socket = between / "run" / "agent.sock"
    between.chmod(0o777)
    with pytest.raises(ConfigError, match=f"{between} can be written"):
        folder_for(socket, os.getgid(), tmp_path)
    between.chmod(0o1777)  # as /tmp: what is there stays
    folder_for(socket, os.getgid(), tmp_path)


def test_nor_is_it_in_the_hands_of_another_user(
    tmp_path: Path, passable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(passable, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    (passable / "run").mkdir()
    for folder in (passable, passable / "run"):
        with pytest.raises(ConfigError, match="is another user's"):
            folder_for(folder / "agent.sock", os.getgid(), tmp_path)


def test_a_link_on_the_way_is_named_with_where_it_leads(tmp_path: Path, passable: Path) -> None:
    (passable / "real").mkdir()
    (passable / "link").symlink_to("real")
    with pytest.raises(ConfigError, match="over a link") as caught:
        folder_for(passable / "link" / "agent.sock", os.getgid(), tmp_path)
    assert caught.value.fix.endswith(f"unix:{passable.resolve()}/real/agent.sock")


def test_the_state_folder_is_not_opened(tmp_path: Path, passable: Path) -> None:
    state = passable / "state"
    config = _config(tmp_path, state / "agent.sock", SOTTO_AGENT_STATE=str(state))
    with pytest.raises(ConfigError, match="state folder"), running(config):
        pass
    assert _mode(state) == 0o700
