"""`sotto apps`: tokens shown once, heeded by an agent that runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc
from tests.support.agent import running

from .conftest import Device


def _ask(address: str, token: str) -> str:
    with grpc.insecure_channel(address) as channel:
        stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
        metadata = (("authorization", f"Bearer {token}"),)
        request = agent.PrivatizeRequest(text="Zelphira saw the house")
        return str(stub.Privatize(request, metadata=metadata, timeout=60).text)


def test_an_app_is_made_listed_and_removed_beside_a_running_agent(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_AGENT_APPS="true")
    with running(device.config) as address:
        (made,) = device.json("apps", "new", "mail", "--calls-a-minute", "9", "--a-day", "500")
        assert made["name"] == "mail"
        assert _ask(address, made["token"])
        (listed,) = device.json("apps", "list")
        assert listed.pop("spent_today") > 0
        hides: dict[str, list[str]] = {"hide": [], "words": [], "patterns": []}
        assert listed == {"name": "mail", "calls_a_minute": 9, "a_day": 500.0} | hides
        shown = device.sotto("apps", "list").stdout
        assert "mail" in shown
        assert made["token"] not in shown
        assert device.json("status")[0]["ledger"]["releases"] == 1  # the owner's own token
        assert device.json("apps", "rm", "mail") == [{"name": "mail"}]
        with pytest.raises(grpc.RpcError) as caught:
            _ask(address, made["token"])
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert device.json("apps", "list") == []
    device.sotto("apps", "rm", "mail", code=4)


def test_a_token_goes_to_a_file_of_its_owner_alone(device: Device, tmp_path: Path) -> None:
    file = tmp_path / "mail.token"
    before = os.umask(0)
    try:
        shown = device.sotto("apps", "new", "mail", "--token-file", str(file)).stdout
    finally:
        os.umask(before)
    token = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token not in shown
    device.sotto("apps", "new", "lamp", "--token-file", str(file), code=2)
    assert file.read_text().strip() == token
    device.sotto("apps", "new", "lamp", "--token-file", str(tmp_path / "none" / "x"), code=78)
    assert [each["name"] for each in device.json("apps", "list")] == ["mail"]


def test_what_the_socket_does_with_it_is_said(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    assert "agent.apps true" in new_device(tagged_bundle).sotto("apps", "new", "mail").stderr
    asking = new_device(SOTTO_AGENT_APPS="true")
    assert asking.sotto("apps", "new", "lamp").stderr == ""


def test_a_name_is_given_once(device: Device) -> None:
    device.sotto("apps", "new", "mail")
    assert "apps rm mail" in device.sotto("apps", "new", "mail", code=2).stderr
    device.sotto("apps", "new", "a b", code=2)


def test_a_report_of_a_fault_tells_of_no_app(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_AGENT_APPS="true")
    with running(device.config):
        (made,) = device.json("apps", "new", "zebulonmail", "--a-day", "123.75")
        (told,) = device.json("bugreport")
    own = (device.config.agent.state / "owner.token").read_text().strip()
    assert told["settings"]["agent.apps"] is True
    for secret in (made["token"], own, "zebulon", "123.75"):
        assert secret not in str(told)


def test_what_an_app_also_hides_is_changed_beside_a_running_agent(
    new_device: Callable[..., Device], tagged_bundle: Path
) -> None:
    device = new_device(tagged_bundle, SOTTO_AGENT_APPS="true", SOTTO_PRIVACY_POLICY="names")
    with running(device.config) as address:
        options = ("--hide-words", "the house", "--hide", "facts")
        (made,) = device.json("apps", "new", "mail", *options)
        (other,) = device.json("apps", "new", "lamp")
        assert "house" not in _ask(address, made["token"]).split()
        assert _ask(address, other["token"]).endswith("the house")
        device.sotto("apps", "hide", "mail", "--hide-pattern", "w=ho[aeiou]se", "--afresh")
        assert "the " in _ask(address, made["token"])
        assert "house" not in _ask(address, made["token"]).split()
        device.sotto("apps", "hide", "mail", "--afresh")
        assert _ask(address, made["token"]).endswith("the house")
        device.sotto("words", "hide", "house")
        assert not [
            each for each in (made, other) if "house" in _ask(address, each["token"]).split()
        ]
        shown = device.sotto("apps", "hide", "mail", "--hide-words", "saw").stdout
        assert "1 words" in shown
        assert "house" not in device.sotto("apps", "list").stdout
    assert device.json("apps", "list")[0]["words"] in ([], ["saw"])
    device.sotto("apps", "hide", "none", code=4)
    device.sotto("apps", "hide", "mail", "--hide", "nothing", code=2)
    device.sotto("apps", "hide", "mail", "--hide-pattern", "w=(a+)+b", code=2)
