"""The client against the agent at SOTTO_AGENT_LISTEN, over a server that echoes."""

import asyncio
import os

import grpc
import pytest
from sottovoce_client import Agent, AsyncAgent
from sottovoce_client.v1 import edge_chat_pb2 as chats
from sottovoce_client.v1 import generation_pb2 as generation

pytestmark = pytest.mark.skipif(
    "SOTTO_AGENT_LISTEN" not in os.environ, reason="SOTTO_AGENT_LISTEN names no agent"
)
SAID = "Anna was in the garden"
TURNS = [chats.ChatTurn(role=generation.ROLE_USER, text=SAID)]


def test_a_release_has_no_name_and_is_the_same_by_asyncio() -> None:
    with Agent() as agent:
        release = agent.privatize(SAID).text
    assert release
    assert "Anna" not in release

    async def again() -> str:
        async with AsyncAgent() as agent:
            return (await agent.privatize(SAID)).text

    assert asyncio.run(again()) == release


def test_a_conversation_is_restored_as_it_streams() -> None:
    with Agent() as agent:
        events = list(agent.chat(TURNS))
    assert "".join(event.delta_text for event in events) == SAID

    async def again() -> str:
        async with AsyncAgent() as agent:
            return "".join([event.delta_text async for event in agent.chat(TURNS)])

    assert asyncio.run(again()) == SAID


def test_an_unknown_adapter_is_an_error_of_grpc() -> None:
    with Agent() as agent, pytest.raises(grpc.RpcError) as raised:
        list(agent.predict("no-such-adapter", [SAID]))
    assert raised.value.code() == grpc.StatusCode.NOT_FOUND


def test_an_agent_that_is_away_is_unavailable() -> None:
    with Agent("127.0.0.1:9") as agent, pytest.raises(grpc.RpcError) as raised:
        agent.privatize(SAID)
    assert raised.value.code() == grpc.StatusCode.UNAVAILABLE
