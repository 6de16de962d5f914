"""Other people's clients, as they are, against the OpenAI endpoint and a server behind it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pydantic
import pytest

from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import asked, before_a_server, calling
from tests.support.upstream_server import Server, drip, echo, event

TEXT = "Zelphira Quarnivel saw Jorvane at Little Rock, order AX-68042"
SECRETS = ("Zelphira", "Quarnivel", "Jorvane", "68042")
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "find",
        "parameters": {"type": "object", "properties": {"who": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, bundle_folder: Path
) -> Iterator[tuple[Door, Server]]:
    folder = tmp_path_factory.mktemp("device")
    with before_a_server(folder, bundle_folder) as found:
        yield found


@pytest.fixture
def both(pair: tuple[Door, Server]) -> Iterator[tuple[Door, Server]]:
    door, server = pair
    server.answer = echo
    server.gone.clear()
    server.asked.clear()
    yield door, server
    assert not [secret for secret in SECRETS if secret in asked(server)]


@pytest.fixture
def client(both: tuple[Door, Server]) -> Iterator[openai.OpenAI]:
    door, _ = both
    with openai.OpenAI(base_url=f"http://{door.address}/v1", api_key=door.key) as found:
        yield found


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def test_a_chat_whole_and_in_pieces(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="default", messages=[user(TEXT)], temperature=0)
    assert whole.choices[0].message.content == TEXT
    assert whole.usage is not None
    assert whole.usage.total_tokens == 11
    raw = client.chat.completions.with_raw_response.create(model="a-model", messages=[user(TEXT)])
    assert raw.headers["x-sottovoce-policy"] == "personal"
    stream = client.chat.completions.create(model="default", messages=[user(TEXT)], stream=True)
    pieces = [each.choices[0].delta.content or "" for each in stream]
    assert "".join(pieces) == TEXT
    assert len(pieces) > 3


def test_an_asynchronous_chat(both: tuple[Door, Server]) -> None:
    door, _ = both

    async def chat() -> list[str]:
        url = f"http://{door.address}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key=door.key) as client:

            async def one(number: int) -> str:
                stream = await client.chat.completions.create(
                    model="default", messages=[user(f"{TEXT}, {number}")], stream=True
                )
                return "".join([each.choices[0].delta.content or "" async for each in stream])

            return await asyncio.gather(*map(one, range(1_000, 1_004)))

    assert asyncio.run(chat()) == [f"{TEXT}, {number}" for number in range(1_000, 1_004)]


def test_a_function_is_called_and_answered(
    both: tuple[Door, Server], client: openai.OpenAI
) -> None:
    _, server = both
    server.answer = calling(("find", lambda body: {"who": body["messages"][0]["content"]}))
    messages = [user("Jorvane Quarnivel")]
    first = client.chat.completions.create(model="default", messages=messages, tools=[TOOL])
    message = first.choices[0].message
    assert message.tool_calls is not None
    (call,) = message.tool_calls
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"who": "Jorvane Quarnivel"}
    server.answer = echo
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "Jorvane is at the lake"}
    second = client.chat.completions.create(
        model="default", messages=[*messages, message, result], tools=[TOOL]
    )
    assert second.choices[0].message.content == "Jorvane is at the lake"


class Sighting(pydantic.BaseModel):
    """A schema; its texts are privatised as well."""

    who: str = pydantic.Field(description="Zelphira or Jorvane")
    zelphira: list[str]


def filled(body: dict[str, Any]) -> Iterator[bytes]:
    """An answer that follows the schema in the request."""
    text = body["messages"][-1]["content"]
    who, listed = body["response_format"]["json_schema"]["schema"]["properties"]
    yield event(json.dumps({who: text, listed: [text]}))
    yield event("", reason="stop")
    yield b"data: [DONE]\n\n"


def test_a_schema_is_parsed(both: tuple[Door, Server], client: openai.OpenAI) -> None:
    _, server = both
    server.answer = filled
    wanted = Sighting(who=TEXT, zelphira=[TEXT])
    chat = client.chat.completions.parse(
        model="default", messages=[user(TEXT)], response_format=Sighting
    )
    assert chat.choices[0].message.parsed == wanted
    with client.chat.completions.stream(
        model="default", messages=[user(TEXT)], response_format=Sighting
    ) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == wanted
    response = client.responses.parse(model="default", input=TEXT, text_format=Sighting)
    assert response.output_parsed == wanted


HOME: Any = {
    "model": "default",
    "max_output_tokens": 150,
    "top_p": 1.0,
    "temperature": 1.0,
    "user": "01JQ6ZELPHIRA",
    "store": False,
    "stream": True,
    "tools": [
        {
            "type": "function",
            "name": "HassTurnOn",
            "description": "Turns on/opens/presses a device or entity",
            "strict": False,
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "area": {"type": "string"},
                    "domain": {"type": "array", "items": {"type": "string"}},
                    "device_class": {
                        "type": "array",
                        "items": {"type": "string", "enum": ["outlet", "switch", "tv"]},
                    },
                },
                "required": [],
            },
        }
    ],
}
"""What Home Assistant 2025.4 sends (`components/openai_conversation/conversation.py`)."""


def test_home_assistants_conversation(both: tuple[Door, Server]) -> None:
    door, server = both
    said = "Turn on Jorvane's lamp"
    messages: list[Any] = [
        {"type": "message", "role": "developer", "content": "You live with Zelphira Quarnivel."},
        {"type": "message", "role": "user", "content": said},
    ]

    async def turn() -> tuple[str, list[Any]]:
        """One round of the integration's loop, with the events that it reads."""
        text, calls = "", []
        url = f"http://{door.address}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key=door.key) as client:
            async for each in await client.responses.create(input=messages, **HOME):
                if each.type == "response.output_item.added" and each.item.type == "function_call":
                    calls.append(each.item)
                elif each.type == "response.output_text.delta":
                    text += each.delta
                elif each.type == "response.function_call_arguments.delta":
                    calls[-1].arguments += each.delta
                elif each.type == "response.completed":
                    assert each.response.usage is not None
        return text, calls

    server.answer = calling(("", lambda body: {"name": body["messages"][1]["content"]}))
    _, (call,) = asyncio.run(turn())
    assert (call.name, json.loads(call.arguments)) == ("HassTurnOn", {"name": said})
    result = json.dumps({"speech": {}, "data": {"success": [{"name": "Jorvane"}]}})
    messages += [
        {
            "type": "function_call",
            "name": call.name,
            "arguments": json.dumps(json.loads(call.arguments)),
            "call_id": call.call_id,
        },
        {"type": "function_call_output", "call_id": call.call_id, "output": result},
    ]
    server.answer = echo
    assert asyncio.run(turn()) == (result, [])


def test_responses_whole_and_in_pieces(client: openai.OpenAI) -> None:
    whole = client.responses.create(model="default", input=TEXT, instructions="Be Zelphira.")
    assert whole.output_text == TEXT
    with client.responses.stream(model="default", input=TEXT) as stream:
        pieces = [each.delta for each in stream if each.type == "response.output_text.delta"]
        assert stream.get_final_response().output_text == TEXT
    assert "".join(pieces) == TEXT


def test_completions_embeddings_and_models(client: openai.OpenAI) -> None:
    assert client.completions.create(model="default", prompt=TEXT).choices[0].text == TEXT
    found = client.embeddings.create(model="local", input=["Zelphira", "the lake"])
    assert [abs(np.linalg.norm(each.embedding) - 1) < 1e-5 for each in found.data] == [True, True]
    assert [model.id for model in client.models.list()] == ["default", "local", "a-model"]


def test_errors_are_those_the_client_knows(
    both: tuple[Door, Server], client: openai.OpenAI
) -> None:
    _, server = both
    patient = client.with_options(max_retries=0)
    with pytest.raises(openai.BadRequestError, match="seeds"):
        patient.chat.completions.create(
            model="default", messages=[user("x")], extra_body={"seeds": 5}
        )
    with pytest.raises(openai.NotFoundError):
        patient.chat.completions.create(model="gpt", messages=[user("x")])
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="sk-no").models.list()
    server.status = 500
    try:
        with pytest.raises(openai.InternalServerError) as caught:
            patient.chat.completions.create(model="default", messages=[user(TEXT)])
    finally:
        server.status = 200
    assert caught.value.status_code == 503
    server.answer = lambda body: [event("so far "), b"data: {}x\n\n"]
    with pytest.raises(openai.APIError):
        [*patient.chat.completions.create(model="default", messages=[user("x")], stream=True)]


def test_a_stream_that_is_closed_ends_the_work(
    both: tuple[Door, Server], client: openai.OpenAI
) -> None:
    _, server = both
    server.answer = drip(event("so on and "))
    stream = client.chat.completions.create(model="default", messages=[user("x")], stream=True)
    assert next(iter(stream)).choices
    stream.close()
    assert server.gone.wait(60)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(both: tuple[Door, Server], tmp_path: Path) -> None:
    door, _ = both
    key = tmp_path / "headers"
    key.write_text(f"Authorization: Bearer {door.key}\nContent-Type: application/json\n")
    body = json.dumps({"messages": [user(TEXT)], "stream": True})
    url = f"http://{door.address}/v1/chat/completions"
    done = subprocess.run(
        ["curl", "-sSN", "--noproxy", "*", "-H", f"@{key}", "-d", "@-", url],
        input=body,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    events = [each.removeprefix("data: ") for each in done.stdout.split("\n\n") if each]
    assert events.pop() == "[DONE]"
    deltas = [json.loads(each)["choices"][0]["delta"].get("content", "") for each in events]
    assert "".join(deltas) == TEXT


CLIENTS = os.environ.get("SOTTO_TEST_CLIENTS", "")
"""A Python with `litellm` and `langchain-openai`, which are too heavy for our environments."""
heavy = pytest.mark.skipif(not CLIENTS, reason="SOTTO_TEST_CLIENTS names no Python with them")


def ask(script: str, door: Door) -> None:
    """Run a client in its own process, because its threads outlive every call."""
    subprocess.run(
        [CLIENTS, "-c", script, f"http://{door.address}/v1", door.key, TEXT],
        env={**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        check=True,
        timeout=300,
    )


LITELLM = """
import asyncio, json, sys
import litellm
url, key, text = sys.argv[1:]
asked = {
    "model": "openai/default",
    "messages": [{"role": "user", "content": text}],
    "api_base": url,
    "api_key": key,
    "temperature": 0,
}
assert litellm.completion(**asked).choices[0].message.content == text
stream = litellm.completion(**asked, stream=True, stream_options={"include_usage": True})
told = [each.choices[0].delta.content or "" for each in stream if each.choices]
assert "".join(told) == text
assert asyncio.run(litellm.acompletion(**asked)).choices[0].message.content == text
more = {"n": 2, "presence_penalty": 0.5, "reasoning_effort": "low", "seed": 7, "logprobs": True}
found = litellm.completion(**asked, **more, max_tokens=50, user="Zelphira")
assert [each.message.content for each in found.choices] == [text, text]
"""
LITELLM_TOOLS = """
import json, sys
import litellm
url, key, text = sys.argv[1:]
tool = {"type": "function", "function": {"name": "find", "parameters": {"type": "object",
    "properties": {"who": {"type": "string"}}}}}
found = litellm.completion(model="openai/default", api_base=url, api_key=key, tools=[tool],
    messages=[{"role": "user", "content": text}])
(call,) = found.choices[0].message.tool_calls
assert (call.function.name, json.loads(call.function.arguments)) == ("find", {"who": text})
"""
LANGCHAIN = """
import sys
from langchain_openai import ChatOpenAI, OpenAI
url, key, text = sys.argv[1:]
model = ChatOpenAI(model="default", base_url=url, api_key=key, temperature=0)
assert model.invoke(text).content == text
assert "".join(piece.content for piece in model.stream(text)) == text
newer = ChatOpenAI(model="default", base_url=url, api_key=key, use_responses_api=True)
assert newer.invoke(text).text == text
assert OpenAI(model="default", base_url=url, api_key=key).invoke(text) == text
"""
LANGCHAIN_TOOLS = """
import sys
from langchain_openai import ChatOpenAI
url, key, text = sys.argv[1:]
tool = {"type": "function", "function": {"name": "find", "description": "find", "parameters": {
    "type": "object", "properties": {"who": {"type": "string"}}}}}
model = ChatOpenAI(model="default", base_url=url, api_key=key)
(call,) = model.bind_tools([tool]).invoke(text).tool_calls
assert (call["name"], call["args"]) == ("find", {"who": text})
"""
LANGCHAIN_SCHEMA = """
import sys
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
url, key, text = sys.argv[1:]
class Sighting(BaseModel):
    who: str
    zelphira: list[str]
model = ChatOpenAI(model="default", base_url=url, api_key=key)
found = model.with_structured_output(Sighting, method="json_schema").invoke(text)
assert found == Sighting(who=text, zelphira=[text]), found
"""


@heavy
@pytest.mark.parametrize(
    "script", [LITELLM, LITELLM_TOOLS, LANGCHAIN, LANGCHAIN_TOOLS, LANGCHAIN_SCHEMA]
)
def test_heavy_clients(both: tuple[Door, Server], script: str) -> None:
    door, server = both
    if "tools" in script:
        server.answer = calling(("find", lambda body: {"who": body["messages"][0]["content"]}))
    if "BaseModel" in script:
        server.answer = filled
    ask(script, door)
