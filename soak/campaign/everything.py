"""Everything that a running daemon answers: RPCs and endpoints, as the program itself lists them.

A new RPC or endpoint is called without a change here, by messages drawn from its descriptor. What
stands here are requests that get far into the program.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import grpc
from google.protobuf.message import Message
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import sottovoce.v1
from soak.campaign.messages import made, methods
from soak.campaign.wire import called
from sottovoce.core.http.page import SESSION, files
from sottovoce.edge.http import page
from sottovoce.edge.http.endpoints import ENDPOINTS
from sottovoce.v1 import edge_adapters_pb2 as adapters
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import labelled
from tests.support.openai_endpoint import Door

ADAPTER: Final = "topics"
TEXT: Final = "Anna was in the garden by the lake"
_DRAWN: Final = 3
"""Further messages for each RPC."""

_ASKED: Final = agent.PrivatizeRequest(text=TEXT)
_PREDICTED: Final = agent.PredictRequest(
    text=TEXT, adapter=ADAPTER, where=agent.WHERE_CLOUD, privacy=agent.PrivacyOptions(level="light")
)
_TURN: Final = chats.ChatTurn(role=generation.ROLE_USER, text=TEXT)
_SETTINGS: Final = agent.CustomizationSettings(
    adapter=ADAPTER, privacy=agent.PrivacyOptions(level="light")
)
SOUND: Final[Mapping[str, Sequence[Message]]] = MappingProxyType(
    {
        "Customize": [
            agent.CustomizeRequest(settings=_SETTINGS),
            agent.CustomizeRequest(examples=agent.LabelledTexts(examples=labelled())),
        ],
        "WatchCustomization": [agent.WatchCustomizationRequest(adapter=ADAPTER)],
        "Privatize": [_ASKED],
        "PrivatizeStream": [agent.PrivatizeStreamRequest(request_id="1", request=_ASKED)],
        "Predict": [_PREDICTED],
        "PredictStream": [agent.PredictStreamRequest(request_id="1", request=_PREDICTED)],
        "Embed": [agent.EmbedRequest(text=TEXT)],
        "EmbedStream": [
            agent.EmbedStreamRequest(request_id="1", request=agent.EmbedRequest(text=TEXT))
        ],
        "Chat": [chats.ChatRequest(turns=[_TURN])],
        "Complete": [chats.CompleteRequest(text=TEXT)],
        "KeepCorrections": [
            adapters.KeepCorrectionsRequest(
                adapter=ADAPTER, corrections=[adapters.Correction(text=TEXT, label="clinic")]
            )
        ],
        "ListCorrections": [adapters.ListCorrectionsRequest(adapter=ADAPTER)],
        "ForgetCorrections": [adapters.ForgetCorrectionsRequest(adapter=ADAPTER)],
        "CancelCustomization": [adapters.CancelCustomizationRequest(adapter=ADAPTER)],
        "RollBackAdapter": [adapters.RollBackAdapterRequest(adapter=ADAPTER)],
        "DeleteAdapter": [adapters.DeleteAdapterRequest(adapter=ADAPTER)],
    }
)
"""Requests to the device, by method, in this order."""
PAGE: Final = {
    **dict.fromkeys(files("sottovoce.edge.http"), "GET"),
    SESSION: "POST",
    **{path: method for path, (method, _) in page.ENDPOINTS.items()},
}
"""Requests to the owner's page, by path."""
ENDPOINT: Final = {
    f"{path}default" if path.endswith("/") else path: method
    for path, (method, _) in ENDPOINTS.items()
}
"""Requests to the OpenAI endpoint, which has a path for each model."""
_BODIES: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "/api/try": {"text": TEXT},
        "/api/words/change": {"word": "heron", "to": "allow"},
        "/api/waiting/allow": {"id": "none"},
        "/v1/chat/completions": {"messages": [{"role": "user", "content": TEXT}]},
        "/v1/completions": {"prompt": TEXT},
        "/v1/embeddings": {"input": TEXT},
        "/v1/responses": {"input": TEXT},
    }
)


def declared() -> set[str]:
    """Return all services in ``protos/``, of both sides, by full name."""
    names = (module.name for module in pkgutil.iter_modules(sottovoce.v1.__path__))
    modules = [importlib.import_module(f"sottovoce.v1.{n}") for n in names if n.endswith("_pb2")]
    found = (each.DESCRIPTOR.services_by_name.values() for each in modules)
    return {service.full_name for each in found for service in each}


def services(channel: grpc.Channel) -> list[str]:
    """Return all services of a server, by full name, from its reflection."""
    declared()  # loads what describes them
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[no-untyped-call]
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    (told,) = stub.ServerReflectionInfo(iter([asked]))
    return [each.name for each in told.list_services_response.service]


def every_rpc(
    channel: grpc.Channel,
    chance: random.Random,
    sound: Mapping[str, Sequence[Message]],
    metadata: tuple[tuple[str, str], ...] = (),
) -> Iterator[tuple[str, str]]:
    """Call every method of a server; yield its full name and the call's status."""
    order = [*sound]
    found = sorted(
        methods(tuple(services(channel))),
        key=lambda each: order.index(each.name) if each.name in order else -1,
    )
    for method in found:
        if given := [each.SerializeToString() for each in sound.get(method.name, ())]:
            yield method.full_name, called(channel, method, given, metadata)
        for _ in range(_DRAWN):
            drawn = [made("valid", method, chance)]
            yield method.full_name, called(channel, method, drawn, metadata)


def requests(door: Door, listed: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Request every path; yield it with the response's status."""
    for path, method in listed.items():
        body = _BODIES.get(path, {}) if method == "POST" else None
        yield path, door.ask(path, body, method).status
