"""Every RPC gives the same answers and the same errors over the socket and in this process."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf import json_format
from google.protobuf.message import Message

from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy import inspection
from sottovoce.edge.cli.client import Client, connect, local
from sottovoce.edge.services import NAMES
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.outbox import ENDED
from sottovoce.edge.tasks import predict
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_owner_pb2 as owner
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, labelled, running
from tests.support.plain_denoiser import PlainDenoiser
from tests.support.stub_cloud import StubCloud, stub_cloud
from tests.support.upstream_server import openai_server

from .conftest import Device

TEXT = "Anna saw the river in winter"
LEARNT = labelled()[0].text
CHANCE = ("id", "jobId", "createTime", "url", "progress", "bytesSent", "uploaded", "cloudAddress")
"""Fields that are drawn, or that depend on how far the upload is."""

Call = tuple[str, Any]
"""A method as service.method, and its request, or its requests."""


def _customize(adapter: str, number: int = 20) -> list[agent.CustomizeRequest]:
    settings = agent.CustomizationSettings(adapter=adapter)
    examples = agent.LabelledTexts(examples=labelled(number))
    return [agent.CustomizeRequest(settings=settings), agent.CustomizeRequest(examples=examples)]


def _chat(text: str) -> chats.ChatRequest:
    return chats.ChatRequest(turns=[chats.ChatTurn(role=generation.ROLE_USER, text=text)])


def _privatize(text: str, words: bool = False) -> agent.PrivatizeRequest:
    return agent.PrivatizeRequest(text=text, words=words)


def _predict(text: str, adapter: str) -> agent.PredictRequest:
    return agent.PredictRequest(text=text, adapter=adapter, where=agent.WHERE_CLOUD)


def _correction(label: str) -> adapters.KeepCorrectionsRequest:
    each = adapters.Correction(text="The river was cold", label=label)
    return adapters.KeepCorrectionsRequest(adapter="desk", corrections=[each])


CALLS: tuple[Call, ...] = (
    ("agent.Privatize", _privatize(TEXT, words=True)),
    ("agent.Privatize", _privatize("")),
    (
        "agent.PrivatizeStream",
        [
            agent.PrivatizeStreamRequest(request_id=each, request=_privatize(text))
            for each, text in (("one", TEXT), ("two", ""), ("three", TEXT))
        ],
    ),
    ("agent.Embed", agent.EmbedRequest(text=TEXT)),
    ("agent.Embed", agent.EmbedRequest(text=TEXT, level="none")),
    (
        "agent.EmbedStream",
        [
            agent.EmbedStreamRequest(request=agent.EmbedRequest(text=text))
            for text in (TEXT, "another", "")
        ],
    ),
    ("agent.Customize", _customize("desk")),
    ("agent.Customize", _customize("few", 3)),
    ("agent.Customize", []),
    ("agent.WatchCustomization", agent.WatchCustomizationRequest(adapter="desk")),
    ("agent.WatchCustomization", agent.WatchCustomizationRequest()),
    ("agent.WatchCustomization", agent.WatchCustomizationRequest(adapter="none")),
    ("agent.Predict", _predict(LEARNT, "desk")),
    ("agent.Predict", _predict(LEARNT, "none")),
    (
        "agent.PredictStream",
        [
            agent.PredictStreamRequest(request_id=each, request=_predict(LEARNT, each))
            for each in ("desk", "none")
        ],
    ),
    ("chat.Chat", _chat(TEXT)),
    ("chat.Chat", _chat("")),
    ("chat.Complete", chats.CompleteRequest(text=TEXT)),
    ("chat.Complete", chats.CompleteRequest()),
    ("adapters.KeepCorrections", _correction("clinic")),
    ("adapters.KeepCorrections", _correction("nowhere")),
    ("adapters.ListCorrections", adapters.ListCorrectionsRequest(adapter="desk")),
    ("adapters.ListCorrections", adapters.ListCorrectionsRequest(adapter="none")),
    ("agent.GetStatus", agent.GetStatusRequest()),
    ("owner.GetSpending", owner.GetSpendingRequest()),
    ("adapters.ForgetCorrections", adapters.ForgetCorrectionsRequest(adapter="desk")),
    ("adapters.ForgetCorrections", adapters.ForgetCorrectionsRequest()),
    ("adapters.RollBackAdapter", adapters.RollBackAdapterRequest(adapter="desk")),
    ("adapters.CancelCustomization", adapters.CancelCustomizationRequest(adapter="desk")),
    ("adapters.CancelCustomization", adapters.CancelCustomizationRequest()),
    ("adapters.DeleteAdapter", adapters.DeleteAdapterRequest(adapter="desk")),
    ("adapters.DeleteAdapter", adapters.DeleteAdapterRequest(adapter="desk")),
    ("agent.GetStatus", agent.GetStatusRequest()),
    ("owner.OpenPage", owner.OpenPageRequest()),
)
"""Calls in an order in which each finds what it needs."""

METHODS = sorted(
    f"{name}.{method.name}"
    for name, module in (
        ("agent", agent),
        ("chat", chats),
        ("adapters", adapters),
        ("owner", owner),
    )
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
)


class Outcome(NamedTuple):
    """The responses of a call, then its error."""

    responses: list[Any]
    error: tuple[str, ...]


def _outcome(client: Client, call: Call) -> Outcome:
    name, request = call
    service, method = name.split(".")
    responses: list[Any] = []
    try:
        answer = getattr(getattr(client, service), method)(
            iter(request) if isinstance(request, list) else request
        )
        for each in [answer] if isinstance(answer, Message) else answer:
            responses.append(_same(json_format.MessageToDict(each)))  # noqa: PERF401 - one by one
    except SottovoceError as error:
        kind = type(error).__name__
        return Outcome(responses, (kind, error.problem, error.fix, error.subject))
    if method == "WatchCustomization":
        responses = responses[-1:]  # how many there are depends on time
    return Outcome(responses, ())


def _same(value: Any) -> Any:
    """The part of a message that the same call always gives."""
    if isinstance(value, dict):
        return {key: _same(each) for key, each in value.items() if key not in CHANCE}
    if isinstance(value, float):
        return round(value, 6)  # the stub cloud's sums depend on the order of the examples
    return [_same(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def outcomes(
    tagged_bundle: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[str, Outcome, Outcome]]:
    """Return each call's outcome over the socket and in this process."""
    kept = tmp_path_factory.mktemp("kept")
    Store.open(kept / "state").close()  # one key for both, so that both draw the same noise
    came = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(inspection, "inspect", lambda *_, **__: ())  # see the conftest
        patched.setattr(predict, "_open_denoiser", PlainDenoiser)
        for remote in (True, False):
            folder = tmp_path_factory.mktemp("device")
            shutil.copytree(kept / "state", folder / "state")
            with stub_cloud(tagged_bundle) as cloud, openai_server() as server:
                config = configured(
                    folder,
                    bundle=tagged_bundle,
                    SOTTO_AGENT_STATE=str(folder / "state"),
                    SOTTO_CLOUD_ADDRESS=cloud.address,
                    SOTTO_CHAT_UPSTREAM=server.url,
                )
                if remote:
                    with running(config) as address, connect(address) as client:
                        came.append([_outcome(client, call) for call in CALLS])
                else:
                    with local(config) as client:
                        came.append([_outcome(client, call) for call in CALLS])
    return [(call[0], *both) for call, *both in zip(CALLS, *came, strict=True)]


@pytest.mark.parametrize("method", METHODS)
def test_both_ways_give_the_same(outcomes: list[tuple[str, Outcome, Outcome]], method: str) -> None:
    found = [(served, alone) for name, served, alone in outcomes if name == method]
    assert found
    for served, alone in found:
        assert served == alone


def test_the_calls_are_answered_and_refused(
    outcomes: list[tuple[str, Outcome, Outcome]],
) -> None:
    """Otherwise both ways could be alike in refusing everything."""
    without = {"adapters.RollBackAdapter", "adapters.CancelCustomization"}
    assert {name for name, served, _ in outcomes if served.responses} == {*METHODS} - without
    assert [name for name, served, _ in outcomes if not (served.responses or served.error)] == []
    assert len({served.error[0] for _, served, _ in outcomes if served.error}) >= 3


def test_the_client_calls_all_services() -> None:
    assert len(NAMES) == len({name.split(".")[0] for name in METHODS})


def test_a_call_in_this_process_ends_when_it_is_cancelled(linked: Device, cloud: StubCloud) -> None:
    cloud.may_train.clear()
    with local(linked.config) as client:
        queued = client.agent.Customize(iter(_customize("desk"))).customization
        watched = client.agent.WatchCustomization(agent.WatchCustomizationRequest(id=queued.id))
        assert next(watched).customization.id == queued.id
        threading.Timer(0.2, watched.cancel).start()
        assert all(each.customization.state not in ENDED for each in watched)
        watched.cancel()  # once more does nothing
    cloud.may_train.set()
