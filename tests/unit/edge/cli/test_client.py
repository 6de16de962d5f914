"""Finding the agent: over its socket, over loopback, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from sottovoce.core.errors import ConfigError, NotReady, Unavailable
from sottovoce.core.platform.files import private_folder
from sottovoce.edge.cli.client import connect, is_running, reach, remote
from sottovoce.edge.state.apps import OWNER
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import running
from tests.support.leaving import TRIES, whose_reading_ends

from .conftest import Device

REQUEST = agent.PrivatizeRequest(text="the pond")


def test_loopback_is_found_too(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_AGENT_LISTEN="127.0.0.1:0")
    with running(device.config) as address:
        device.environment["SOTTO_AGENT_LISTEN"] = address
        assert is_running(device.config)
        with remote(device.config) as served:
            assert served.agent.GetStatus(agent.GetStatusRequest()).version
    assert not is_running(device.config)


def test_who_watches_hears_that_the_agent_took_leave() -> None:
    def watch(address: str) -> None:
        with connect(address) as client, pytest.raises(Unavailable):
            list(client.agent.WatchCustomization(agent.WatchCustomizationRequest(id="id")))

    assert whose_reading_ends(watch) == TRIES


def test_where_none_can_be_reached_it_is_said(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_AGENT_LISTEN="192.0.2.1:1")
    assert not is_running(device.config)  # without waiting: commands have no certificate
    with pytest.raises(NotReady, match="sotto serve"):
        remote(device.config)


def test_an_agent_that_goes_away_is_unavailable(device: Device) -> None:
    with running(device.config):
        served = remote(device.config)
        served.agent.GetStatus(agent.GetStatusRequest())
    with served, pytest.raises(Unavailable, match="the agent on"):
        served.agent.GetStatus(agent.GetStatusRequest())


@contextmanager
def _impostor(address: str) -> Iterator[tuple[str, list[Any]]]:
    """Run a server in the agent's place; yield its address and its received calls."""
    heard: list[Any] = []

    class Listening(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
            heard.append(details)
            return grpc.unary_unary_rpc_method_handler(lambda request, _: heard.append(request))

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads, handlers=[Listening()])
        port = server.add_insecure_port(address)
        server.start()
        try:
            yield address.replace(":0", f":{port}"), heard
        finally:
            server.stop(0).wait()


def _is_another_users(socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(socket, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)


@pytest.mark.parametrize("apps", ["true", "false"])
def test_a_socket_of_another_users_is_told_nothing(
    new_device: Callable[..., Device],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    apps: str,
) -> None:
    socket = tmp_path / "there.sock"
    device = new_device(SOTTO_AGENT_LISTEN=f"unix:{socket}", SOTTO_AGENT_APPS=apps)
    with _impostor(f"unix:{socket}") as (_, heard):
        _is_another_users(socket, monkeypatch)
        for found in (reach, remote):
            with (
                pytest.raises(ConfigError, match="and not the agent's") as caught,
                found(device.config) as served,
            ):
                served.agent.Privatize(REQUEST)
            assert caught.value.subject == "agent.listen"
        assert heard == []


def test_a_port_that_is_not_the_agents_is_told_nothing(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_AGENT_APPS="true")
    OWNER.renew(private_folder(device.config.agent.state))
    with _impostor("127.0.0.1:0") as (address, heard):
        device.environment["SOTTO_AGENT_LISTEN"] = address
        with reach(device.config) as alone:
            assert alone.agent.Privatize(REQUEST).text
        with pytest.raises(NotReady):
            remote(device.config)
        assert heard == []
    device.environment["SOTTO_AGENT_LISTEN"] = "127.0.0.1:0"
    with running(device.config) as address:
        device.environment["SOTTO_AGENT_LISTEN"] = address
        with remote(device.config) as served:
            assert served.agent.GetStatus(agent.GetStatusRequest()).version
