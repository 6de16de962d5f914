"""A daemon that asks each call for a token, and how apps with one ask it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.edge.state.apps import OWNER, Apps
from sottovoce.edge.state.database import Store
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc, edge_chat_pb2_grpc
from tests.support.agent import configured, running

TEXT = "Anna was in the garden by the pond"
ASKED = agent.PrivatizeRequest(text=TEXT)


@dataclass
class Asked:
    """A daemon that asks for tokens, and the apps it knows."""

    config: Config
    channel: grpc.Channel
    apps: Apps

    @property
    def agent(self) -> Any:
        return edge_agent_pb2_grpc.EdgeAgentServiceStub(self.channel)  # type: ignore[no-untyped-call]

    @property
    def chat(self) -> Any:
        return edge_chat_pb2_grpc.EdgeChatServiceStub(self.channel)  # type: ignore[no-untyped-call]

    @property
    def owner(self) -> dict[str, Any]:
        return with_token(OWNER.read(self.config.agent.state))

    def app(self, name: str = "mail", **limits: Any) -> dict[str, Any]:
        """Make an app; return the metadata of its calls."""
        return with_token(self.apps.new(name, **limits))


def with_token(token: str) -> dict[str, Any]:
    return {"metadata": (("authorization", f"Bearer {token}"),), "timeout": 60}


def asking(folder: Path, bundle: Path, **environ: str) -> Config:
    """Settings of a daemon that asks each call for a token."""
    return configured(folder, bundle=bundle, SOTTO_AGENT_APPS="true", **environ)


@contextmanager
def asked(config: Config, tagger: Tagger) -> Iterator[Asked]:
    with (
        running(config, tagger) as address,
        grpc.insecure_channel(address) as channel,
        closing(Store.open(config.agent.state)) as store,
    ):
        yield Asked(config, channel, Apps(store))


def refused(call: Any, code: grpc.StatusCode, detail: type = error_details_pb2.ErrorInfo) -> Any:
    """The detail of an error that has the code."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert caught.value.code() is code, caught.value
    found = detail()
    status = rpc_status.from_call(caught.value)
    assert any(each.Unpack(found) for each in status.details)
    return found
