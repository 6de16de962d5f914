"""OpenAI's newer form: items in and out, events by name, nothing stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import asked, calling
from tests.support.upstream_server import Server, data, echo

PATH = "/v1/responses"
ITEM_DONE = "response.output_item.done"
TEXT = "Zelphira Quarnivel saw Jorvane at Little Rock"
TOOL = {
    "type": "function",
    "name": "find",
    "parameters": {"type": "object", "properties": {"who": {"type": "string"}}},
}


def events(body: bytes) -> list[dict[str, Any]]:
    found = []
    for block in body.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    assert [event["sequence_number"] for event in found] == [*range(len(found))]
    return found


def test_a_text_is_answered(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    fields = {"instructions": "Zelphira asks", "max_output_tokens": 9, "store": False}
    answer = door.ask(PATH, {"input": TEXT, **fields})
    body = answer.json
    assert (body["object"], body["status"]) == ("response", "completed")
    (item,) = body["output"]
    assert item["content"][0] == {
        "type": "output_text",
        "text": TEXT,
        "annotations": [],
        "logprobs": [],
    }
    assert body["usage"]["total_tokens"] == 11
    ((_, _, sent),) = server.asked
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert sent["max_tokens"] == 9
    assert "Zelphira" not in asked(server)
    assert answer.headers["x-sottovoce-turns"] == "2"


def test_items_are_turns_and_what_was_answered_leaves_as_it_came(
    at_server: tuple[Door, Server],
) -> None:
    door, server = at_server
    first = {"role": "user", "content": [{"type": "input_text", "text": TEXT}]}
    answer = door.ask(PATH, {"input": [first]}).json
    again = {"role": "user", "content": "Ask Zelphira"}
    second = door.ask(PATH, {"input": [first, *answer["output"], again]})
    assert second.json["output"][0]["content"][0]["text"] == "Ask Zelphira"
    (_, _, one), (_, _, other) = server.asked
    came = one["messages"][0]["content"]
    assert [message["content"] for message in other["messages"][:2]] == [came, came]


def test_a_stream_tells_all_of_it_in_order(at_server: tuple[Door, Server]) -> None:
    door, _ = at_server
    found = events(door.ask(PATH, {"input": TEXT, "stream": True}).body)
    kinds = [event["type"] for event in found]
    deltas = [event["delta"] for event in found if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == TEXT
    assert kinds[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert kinds[-4:] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert found[-1]["response"]["output"][0]["content"][0]["text"] == TEXT


@pytest.mark.parametrize("stream", [False, True])
def test_functions_are_items(at_server: tuple[Door, Server], stream: bool) -> None:
    door, server = at_server
    server.answer = calling(("find", lambda body: {"who": body["messages"][0]["content"]}))
    given = {"input": "Jorvane", "tools": [TOOL], "stream": stream}
    answer = door.ask(PATH, given)
    body = events(answer.body)[-1]["response"] if stream else answer.json
    (call,) = body["output"]
    assert (call["type"], call["name"]) == ("function_call", "find")
    assert json.loads(call["arguments"]) == {"who": "Jorvane"}
    server.answer = echo
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "Jorvane left"}
    opening = {"role": "user", "content": "Jorvane"}
    second = door.ask(PATH, {"input": [opening, call, result], "tools": [TOOL]})
    assert second.json["output"][0]["content"][0]["text"] == "Jorvane left"
    assert "Jorvane" not in asked(server)


@pytest.mark.parametrize(
    "fields",
    [
        {"surprise": 1},
        {"store": 1},
        {"previous_response_id": "resp_1"},
        {"reasoning": {"effort": "Zyxglorp"}},
        {"text": {"format": {"type": "Zyxglorp"}}},
        {"background": True},
        {"input": []},
        {"input": 5},
        {"tools": [{"type": "web_search"}]},
        {"include": ["x"]},
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(
    at_server: tuple[Door, Server], fields: dict[str, Any]
) -> None:
    door, server = at_server
    answer = door.ask(PATH, {"input": TEXT} | fields)
    assert answer.status == 400
    assert answer.error["param"].startswith(next(iter(fields)))
    assert server.asked == []


def test_a_message_around_a_thought_is_one_item_and_leaves_as_it_came(
    at_server: tuple[Door, Server],
) -> None:
    door, server = at_server

    def piece(**delta: str) -> bytes:
        return data({"choices": [{"index": 0, "delta": delta}]})

    def answer(body: dict[str, Any]) -> Iterator[bytes]:
        who = body["messages"][0]["content"].split()[0]
        yield piece(reasoning_content="so")
        yield piece(content=f"{who} is here. ")
        yield piece(reasoning_content=f"{who}?")
        yield piece(content="Tell me more.")
        yield data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        yield b"data: [DONE]\n\n"

    server.answer = answer
    first = {"role": "user", "content": TEXT}
    found = events(door.ask(PATH, {"input": [first], "stream": True}).body)
    output = found[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "reasoning"]
    done = {event["output_index"]: event["item"] for event in found if event["type"] == ITEM_DONE}
    assert [done[at] for at in range(3)] == output
    assert output[1]["content"][0]["text"] == "Zelphira is here. Tell me more."
    assert output[2]["content"][0]["text"] == "Zelphira?"
    server.answer = echo
    door.ask(PATH, {"input": [first, *output, {"role": "user", "content": "Go on"}]})
    opening, came, _ = (message["content"] for message in server.asked[-1][2]["messages"])
    assert came == f"{opening.split()[0]} is here. Tell me more."
