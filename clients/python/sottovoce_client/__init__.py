"""A thin client of the agent on this device: `Agent` and, for asyncio, `AsyncAgent`.

    with Agent() as agent:
        print(agent.privatize("Anna was in the garden").text)
        for answer in agent.predict("mail", ["the disk is full"]):
            print(answer.label)

Errors are grpc's; its status carries what the agent says, with a fix.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import grpc

from sottovoce_client.v1 import edge_agent_pb2 as agent
from sottovoce_client.v1 import edge_agent_pb2_grpc, edge_chat_pb2_grpc
from sottovoce_client.v1 import edge_chat_pb2 as chats

__all__ = ["Agent", "AsyncAgent", "usual_address"]

# gRPC's own retries lose the end of a stream that is opened while the agent restarts: whoever reads
# it would wait for ever.
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)]
_Metadata = tuple[tuple[str, str], ...]


def usual_address() -> str:
    """SOTTO_AGENT_LISTEN, else the socket where `sotto serve` listens by default."""
    if told := os.environ.get("SOTTO_AGENT_LISTEN"):
        return told
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return f"unix:{(Path(runtime) if runtime else state) / 'sottovoce' / 'agent.sock'}"


def _asked(adapter: str, text: str) -> agent.PredictStreamRequest:
    return agent.PredictStreamRequest(request=agent.PredictRequest(adapter=adapter, text=text))


def _metadata(token: str | None) -> _Metadata:
    told = os.environ.get("SOTTO_APP_TOKEN", "") if token is None else token
    return (("authorization", f"Bearer {told}"),) if told else ()


class _Stubs:
    def __init__(self, channel: Any, metadata: _Metadata) -> None:
        self._channel, self._metadata = channel, metadata
        self.agent: Any = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
        self.conversations: Any = edge_chat_pb2_grpc.EdgeChatServiceStub(channel)  # type: ignore[no-untyped-call]
        """Every call of the agent, for what has no method here."""


class Agent(_Stubs):
    """Speaks to the agent at ``address``; ``token`` is this app's (`sotto apps new`), where the
    agent asks for one: SOTTO_APP_TOKEN by default."""

    def __init__(self, address: str = "", token: str | None = None) -> None:
        channel = grpc.insecure_channel(address or usual_address(), _OPTIONS)
        super().__init__(channel, _metadata(token))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def privatize(self, text: str, level: str = "") -> agent.PrivatizeResponse:
        """The text as it may leave."""
        privacy = agent.PrivacyOptions(level=level)
        found: agent.PrivatizeResponse = self.agent.Privatize(
            agent.PrivatizeRequest(text=text, privacy=privacy), metadata=self._metadata
        )
        return found

    def predict(self, adapter: str, texts: Iterable[str]) -> Iterator[agent.PredictResponse]:
        """An adapter's answers, in order, as they come."""
        asked = (_asked(adapter, text) for text in texts)
        for answer in self.agent.PredictStream(asked, metadata=self._metadata):
            yield answer.response

    def chat(self, turns: Iterable[chats.ChatTurn]) -> Iterator[chats.ChatResponse]:
        """What leaves, pieces of the answer, how it ended."""
        request = chats.ChatRequest(turns=turns)
        yield from self.conversations.Chat(request, metadata=self._metadata)


class AsyncAgent(_Stubs):
    """The same for asyncio."""

    def __init__(self, address: str = "", token: str | None = None) -> None:
        channel = grpc.aio.insecure_channel(address or usual_address(), _OPTIONS)
        super().__init__(channel, _metadata(token))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def privatize(self, text: str, level: str = "") -> agent.PrivatizeResponse:
        """The text as it may leave."""
        privacy = agent.PrivacyOptions(level=level)
        found: agent.PrivatizeResponse = await self.agent.Privatize(
            agent.PrivatizeRequest(text=text, privacy=privacy), metadata=self._metadata
        )
        return found

    async def predict(
        self, adapter: str, texts: AsyncIterable[str]
    ) -> AsyncIterator[agent.PredictResponse]:
        """An adapter's answers, in order, as they come."""
        asked = (_asked(adapter, text) async for text in texts)
        async for answer in self.agent.PredictStream(asked, metadata=self._metadata):
            yield answer.response

    async def chat(self, turns: Iterable[chats.ChatTurn]) -> AsyncIterator[chats.ChatResponse]:
        """What leaves, pieces of the answer, how it ended."""
        request = chats.ChatRequest(turns=turns)
        async for event in self.conversations.Chat(request, metadata=self._metadata):
            yield event
