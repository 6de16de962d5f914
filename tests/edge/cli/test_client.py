"""Finding the agent: over its socket, over loopback, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sottovoce.core.errors import InvalidInput, NotReady, Unavailable
from sottovoce.edge.cli.client import Remote, backend, is_running, remote
from sottovoce.v1 import edge_agent_pb2 as agent
from tests.support.agent import running

from .conftest import Device

REQUEST = agent.PrivatizeRequest(text="the lake")


def test_a_running_agent_is_used_and_a_missing_one_replaced(device: Device) -> None:
    with backend(device.config) as alone:
        assert not isinstance(alone, Remote)
        answer = alone.privatize(REQUEST)
    with running(device.config), backend(device.config) as served:
        assert isinstance(served, Remote)
        assert served.privatize(REQUEST) == answer


def test_errors_cross_the_socket_unchanged(device: Device) -> None:
    with (
        running(device.config),
        remote(device.config) as served,
        pytest.raises(InvalidInput) as caught,
    ):
        served.privatize(agent.PrivatizeRequest())
    assert (caught.value.problem, caught.value.subject) == ("the text is empty", "text")


def test_loopback_is_found_too(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_AGENT_LISTEN="127.0.0.1:0")
    with running(device.config) as address:
        device.environment["SOTTO_AGENT_LISTEN"] = address
        assert is_running(device.config)
        with remote(device.config) as served:
            assert served.status().version
    assert not is_running(device.config)


def test_where_none_can_be_reached_it_is_said(new_device: Callable[..., Device]) -> None:
    device = new_device(SOTTO_AGENT_LISTEN="192.0.2.1:1")
    assert not is_running(device.config)  # without waiting: commands have no certificate
    with pytest.raises(NotReady, match="sotto serve"):
        remote(device.config)


def test_an_agent_that_goes_away_is_unavailable(device: Device) -> None:
    with running(device.config):
        served = remote(device.config)
        served.status()
    with served, pytest.raises(Unavailable, match="the agent on"):
        served.status()
