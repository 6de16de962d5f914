"""Fields that shape an answer: passed on, restored, dropped or refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client import generation as writers
from tests.support.echo import EchoingCloud
from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import asked, before_a_server, calling
from tests.support.upstream_server import Server, data, echo, event

CHAT = "/v1/chat/completions"
TEXT = "Zelphira Quarnivel saw Jorvane at Little Rock"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "What Zelphira wants",
    "properties": {
        "who": {"type": "string", "enum": ["Zelphira", "Jorvane"], "pattern": "Zelphira"},
        "Quarnivel": {"type": "array", "items": {"type": "string", "description": "of Jorvane"}},
        "where": {"type": "string", "examples": ["Jorvane"], "default": "Quarnivel"},
    },
    "required": ["who", "Quarnivel"],
    "additionalProperties": False,
}
FORM = {"name": "Jorvane", "description": "Zelphira", "schema": SCHEMA, "strict": True}
SECRETS = ("Zelphira", "Quarnivel", "Jorvane")


def left(server: Server) -> dict[str, Any]:
    return server.asked[-1][2]


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_what_carries_no_text_is_passed_on(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    fields = {
        "presence_penalty": 0.5,
        "frequency_penalty": -1.5,
        "top_k": 40,
        "min_p": 0.05,
        "reasoning_effort": "minimal",
        "verbosity": "low",
        "response_format": {"type": "json_object"},
        "max_completion_tokens": 7,
    }
    answer = door.chat(TEXT, **fields, modalities=["text"], logit_bias={})
    assert answer.status == 200
    assert "x-sottovoce-dropped" not in answer.headers
    sent = left(server)
    assert sent["max_tokens"] == fields.pop("max_completion_tokens")
    assert {name: sent[name] for name in fields} == fields


def test_neutral_values_are_not_sent(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    neutral = {"presence_penalty": 0, "frequency_penalty": 0.0, "top_k": -1, "n": 1}
    form = {"response_format": {"type": "text"}}
    assert door.chat(TEXT, **neutral, **form).status == 200
    assert not {*left(server)} & {*neutral, *form}


@pytest.mark.parametrize(
    "fields",
    [
        {"presence_penalty": 2.1},
        {"frequency_penalty": -3},
        {"top_k": -2},
        {"min_p": 1.5},
        {"n": 0},
        {"reasoning_effort": "Zelphira"},
        {"verbosity": "Zelphira"},
        {"modalities": ["text", "audio"]},
        {"logit_bias": {"50256": -100}},
        {"service_tier": "Zelphira"},
        {"response_format": {"type": "Zelphira"}},
        {"response_format": {}},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": FORM | {"more": 1}}},
        {"functions": [{"name": "find"}], "tools": [{"type": "function"}]},
        {"function_call": "required"},
        {"prediction": {"type": "content", "content": "Zelphira"}},
    ],
)
def test_what_is_out_of_bounds_or_unknown_is_refused(
    at_server: tuple[Door, Server], fields: dict[str, Any]
) -> None:
    door, server = at_server
    answer = door.chat(TEXT, **fields)
    assert answer.status == 400
    assert "Zelphira" not in answer.body.decode()
    assert server.asked == []


@pytest.mark.parametrize("fields", [{"top_k": 5}, {"response_format": {"type": "json_object"}}])
def test_our_own_cloud_refuses_what_it_does_not_do(
    at_cloud: tuple[Door, EchoingCloud], fields: dict[str, Any]
) -> None:
    door, cloud = at_cloud
    before = len(cloud.asked)
    answer = door.chat(TEXT, **fields)
    assert (answer.status, answer.error["param"]) == (400, next(iter(fields)))
    assert len(cloud.asked) == before


def filled(body: dict[str, Any]) -> Iterator[bytes]:
    """An answer that follows the schema as the server was told it."""
    schema = body["response_format"]["json_schema"]["schema"]
    who, listed, where = schema["properties"]
    found = {
        who: schema["properties"][who]["enum"][1],
        listed: [body["messages"][-1]["content"], 'a "quoted" word'],
        where: schema["properties"][where]["default"],
    }
    written = json.dumps(found)
    for start in range(0, len(written), 3):
        yield event(written[start : start + 3])
    yield event("", reason="stop")
    yield b"data: [DONE]\n\n"


FILLED = {"who": "Jorvane", "Quarnivel": [TEXT, 'a "quoted" word'], "where": "Quarnivel"}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("policy", ["names", "content"])
def test_a_schema_is_text_and_its_answer_parses_after_restoration(
    at_server: tuple[Door, Server], policy: str, stream: bool
) -> None:
    door, server = at_server
    server.answer = filled
    body = {
        "messages": [user(TEXT)],
        "response_format": {"type": "json_schema", "json_schema": FORM},
        "stream": stream,
    }
    answer = door.ask(CHAT, body, x_sottovoce_policy=policy)
    assert answer.status == 200, answer.body
    if stream:
        deltas = [each["choices"][0]["delta"] for each in answer.events]
        text = "".join(delta.get("content", "") for delta in deltas)
    else:
        text = answer.json["choices"][0]["message"]["content"]
    found = json.loads(text)
    assert {**found, "Quarnivel": found["Quarnivel"][1:]} == {
        **FILLED,
        "Quarnivel": FILLED["Quarnivel"][1:],
    }
    if policy != "content":  # its noise on other words stays
        assert found == FILLED
        assert not [secret for secret in SECRETS if secret in asked(server)]
    sent = left(server)["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert "pattern" not in json.dumps(sent)
    assert sent["schema"]["additionalProperties"] is False


def test_a_json_object_is_restored_value_by_value_and_other_text_as_text(
    at_server: tuple[Door, Server],
) -> None:
    door, server = at_server
    form = {"response_format": {"type": "json_object"}}

    def answer(body: dict[str, Any]) -> Iterator[bytes]:
        yield event(json.dumps({"said": [body["messages"][0]["content"], 17, None]}))
        yield event("", reason="stop")

    server.answer = answer
    whole = door.chat(TEXT, **form).json["choices"][0]["message"]["content"]
    assert json.loads(whole) == {"said": [TEXT, 17, None]}
    server.answer = echo
    assert door.chat(TEXT, **form).json["choices"][0]["message"]["content"] == TEXT


@pytest.mark.parametrize("stream", [False, True])
def test_each_of_several_choices_is_restored_and_the_release_is_paid_once(
    at_server: tuple[Door, Server], stream: bool
) -> None:
    door, server = at_server
    counted = {"stream_options": {"include_usage": True}} if stream else {}
    known = f"{TEXT}. Jorvane has a "
    words = f"{known}{'cough' if stream else 'fever'}."
    noisy = {"x_sottovoce_policy": "names"}  # whose noise on what Jorvane has is charged and stays
    body = {"messages": [{"role": "user", "content": words}], "n": 3, "seed": 5, "stream": stream}
    answer = door.ask("/v1/chat/completions", body | counted, **noisy)
    assert float(answer.headers["x-sottovoce-charged"]) > 0
    assert len({body["seed"] for _, _, body in server.asked}) == 3
    assert len({json.dumps(body["messages"]) for _, _, body in server.asked}) == 1
    again = {"messages": body["messages"]}
    assert door.ask("/v1/chat/completions", again, **noisy).headers["x-sottovoce-charged"] == "0"
    if not stream:
        assert [each["index"] for each in answer.json["choices"]] == [0, 1, 2]
        said = {each["message"]["content"] for each in answer.json["choices"]}
        assert len(said) == 1
        assert said.pop().startswith(known)
        assert answer.json["usage"] == {
            "prompt_tokens": 5,
            "completion_tokens": 18,
            "total_tokens": 23,
        }
        return
    *events, usage = answer.events
    for number in range(3):
        own = [each["choices"][0] for each in events if each["choices"][0]["index"] == number]
        assert "".join(each["delta"].get("content", "") for each in own).startswith(known)
        assert own[-1]["finish_reason"] == "stop"
    assert usage["usage"]["completion_tokens"] == 18


def test_several_continuations(at_server: tuple[Door, Server]) -> None:
    door, _ = at_server
    found = door.ask("/v1/completions", {"prompt": TEXT, "n": 2, "best_of": 2}).json
    assert [(each["index"], each["text"]) for each in found["choices"]] == [(0, TEXT), (1, TEXT)]


def thinking(name: str) -> Callable[[dict[str, Any]], Iterator[bytes]]:
    """Return an answer after a thought; both repeat the question."""

    def answer(body: dict[str, Any]) -> Iterator[bytes]:
        text = body["messages"][-1]["content"]
        for field in (name, "content"):
            for start in range(0, len(text), 3):
                delta = {field: text[start : start + 3]}
                yield data({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield event("", reason="stop")

    return answer


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_what_a_model_thinks_is_restored_and_passed_on(
    at_server: tuple[Door, Server], name: str
) -> None:
    door, server = at_server
    server.answer = thinking(name)
    message = door.chat(TEXT).json["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (TEXT, TEXT)
    deltas = [each["choices"][0]["delta"] for each in door.chat(TEXT, stream=True).events]
    for field in ("reasoning_content", "content"):
        assert "".join(each.get(field, "") for each in deltas) == TEXT
    again = [user(TEXT), message, user("Jorvane?")]
    assert door.ask(CHAT, {"messages": again}).status == 200
    assert "reasoning" not in json.dumps(left(server))


def test_a_thought_without_end_is_ended(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    piece = {"choices": [{"index": 0, "delta": {"reasoning": "so " * 20_000}}]}
    server.answer = lambda body: (data(piece) for _ in range(40))
    assert door.chat(TEXT).error["code"] == "answer_too_long"


FUNCTION = {"name": "find", "parameters": {"type": "object", "properties": {"who": {}}}}


@pytest.mark.parametrize("stream", [False, True])
def test_functions_in_the_older_form(at_server: tuple[Door, Server], stream: bool) -> None:
    door, server = at_server
    called = ("", lambda body: {"who": body["messages"][0]["content"]})
    server.answer = calling(called, called)
    fields = {"functions": [FUNCTION], "function_call": {"name": "find"}}
    answer = door.ask(CHAT, {"messages": [user("Jorvane")], **fields, "stream": stream})
    assert left(server)["parallel_tool_calls"] is False
    if stream:
        *_, told, last = [each["choices"][0] for each in answer.events]
        assert last["finish_reason"] == "function_call"
        call = told["delta"]["function_call"]
        assert len(answer.events) == 3  # the opening, one call, the end
    else:
        (choice,) = answer.json["choices"]
        assert choice["finish_reason"] == "function_call"
        call = choice["message"]["function_call"]
        assert "tool_calls" not in choice["message"]
    assert (call["name"], json.loads(call["arguments"])) == ("find", {"who": "Jorvane"})
    server.answer = echo
    said = {"role": "assistant", "content": None, "function_call": call}
    result = {"role": "function", "name": "find", "content": "Jorvane left"}
    second = door.ask(CHAT, {"messages": [user("Jorvane"), said, result], "functions": [FUNCTION]})
    assert second.json["choices"][0]["message"]["content"] == "Jorvane left"
    sent = left(server)["messages"]
    assert sent[2]["role"] == "tool"
    assert sent[2]["tool_call_id"] == sent[1]["tool_calls"][0]["id"]
    assert "Jorvane" not in asked(server)
    alone = door.ask(CHAT, {"messages": [user("x"), result]})
    assert (alone.status, alone.error["param"]) == (400, "messages[1].name")


def test_what_is_never_passed_is_named_in_a_header(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    fields = {"store": True, "logprobs": True, "top_logprobs": 3, "service_tier": "flex"}
    answer = door.chat(TEXT, **fields)
    assert answer.headers["x-sottovoce-dropped"].split(", ") == [
        "store",
        "service_tier",
        "logprobs",
        "top_logprobs",
    ]
    assert answer.json["choices"][0]["logprobs"] is None
    assert not {*left(server)} & {*fields}
    assert "x-sottovoce-dropped" not in door.chat(TEXT, store=False, logprobs=False).headers


def test_unknown_fields_are_dropped_where_the_owner_says_so(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with before_a_server(
        tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_OPENAI_DROP_UNKNOWN="true"
    ) as (door, server):
        odd = "Zyxglorp\r\nx: y, " + "z" * 200
        body = {
            "messages": [user(TEXT) | {"mood": "Zyxglorp"}],
            "surprise": {"Zyxglorp": ["Zyxglorp"]},
            "logit_bias": {"5": 1},
            odd: 1,
        }
        answer = door.ask(CHAT, body)
        assert answer.json["choices"][0]["message"]["content"] == TEXT
        dropped = answer.headers["x-sottovoce-dropped"]
        assert {"messages[0].mood", "surprise", "logit_bias"} <= {*dropped.split(", ")}
        assert len(dropped) < 200
        assert "x" not in answer.headers
        assert "zyxglorp" not in asked(server).lower()
        many = {f"field{n}": 1 for n in range(1_000)}
        assert len(door.chat(TEXT, **many).headers["x-sottovoce-dropped"]) < 300
        # To drop these would answer another request.
        assert door.chat(TEXT, prediction={"content": "x"}).status == 400
        earlier = {"input": TEXT, "previous_response_id": "resp_1"}
        assert door.ask("/v1/responses", earlier).status == 400
        embedded = door.ask("/v1/embeddings", {"input": TEXT, "input_type": "query"})
        assert "input_type" not in embedded.body.decode()


@pytest.mark.parametrize("model", [{}, {"model": "default"}, {"model": None}])
def test_no_model_and_default_mean_the_configured_one(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger, model: dict[str, Any]
) -> None:
    with before_a_server(
        tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_CHAT_MODEL="org/model:7b"
    ) as (door, server):
        for path, body in (
            (CHAT, {"messages": [user(TEXT)]}),
            ("/v1/completions", {"prompt": TEXT}),
            ("/v1/responses", {"input": TEXT}),
        ):
            assert door.ask(path, body | model).status == 200
            assert left(server)["model"] == "org/model:7b"
        listed = [each["id"] for each in door.ask("/v1/models").json["data"]]
        assert listed[:3] == ["default", "local", "org/model:7b"]


def test_one_model_is_found_by_its_name(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with before_a_server(
        tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_CHAT_MODEL="org/model:7b"
    ) as (door, _):
        listed = {each["id"]: each for each in door.ask("/v1/models").json["data"]}
        assert {"default", "local", "org/model:7b", "a-model"} <= listed.keys()
        for name, told in listed.items():
            assert door.ask(f"/v1/models/{name}").json == told
            assert door.ask(f"/v1/models/{quote(name, safe='')}?x=1").json == told
        for name in ("", "org", "org/model:7b/", "%FF"):
            unknown = door.ask(f"/v1/models/{name}")
            assert (unknown.status, unknown.error["param"]) == (404, "model")
        assert door.ask("/v1/models/default", {}).status == 405
        assert door.ask("/v1/models/default", Authorization="").status == 401


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/responses"])
def test_an_answer_that_is_too_long_is_told(
    at_server: tuple[Door, Server],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    door, server = at_server
    monkeypatch.setattr(writers, "LARGEST_ANSWER", 200)
    server.answer = lambda body: (event("x" * 300, chat="messages" in body) for _ in range(9))
    named = {CHAT: "messages", "/v1/responses": "input"}.get(path, "prompt")
    answer = door.ask(path, {named: [user(TEXT)] if path == CHAT else TEXT})
    assert answer.status == 400
    assert "ask for fewer tokens" in answer.error.pop("message")
    told = {"type": "invalid_request_error", "param": "max_tokens", "code": "answer_too_long"}
    assert answer.error | told == answer.error


@pytest.mark.parametrize(
    ("status", "shown", "code"),
    [
        (400, 400, "upstream_invalid_request"),
        (401, 502, "upstream_unauthenticated"),
        (403, 502, "upstream_forbidden"),
        (404, 404, "upstream_not_found"),
        (429, 429, "upstream_rate_limited"),
        (500, 503, "upstream_unavailable"),
    ],
)
def test_an_error_of_the_server_has_its_status_and_a_reason_code(
    at_server: tuple[Door, Server], status: int, shown: int, code: str
) -> None:
    door, server = at_server
    said = b'{"error": {"message": "Zyxglorp", "code": "Zyxglorp"}}'
    server.status, server.answer = status, lambda body: [said]
    server.headers = {"Content-Type": "application/json", "Retry-After": "31"}
    try:
        answer = door.chat(TEXT, stream=True)
    finally:
        server.status, server.headers = 200, {"Content-Type": "text/event-stream"}
    assert (answer.status, answer.error["code"]) == (shown, code)
    assert f"status {status}" in answer.error["message"]
    assert "Zyxglorp" not in answer.body.decode()
    assert answer.headers.get("retry-after") == ("31" if status in (429, 500) else None)


RESPONSES = "/v1/responses"


def test_responses_take_the_same_in_their_own_form(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    server.answer = filled
    body = {
        "input": TEXT,
        "reasoning": {"effort": "high", "summary": "auto"},
        "text": {"format": {"type": "json_schema", **FORM}, "verbosity": "high"},
        "include": ["reasoning.encrypted_content"],
        "truncation": "auto",
        "store": True,
        "top_logprobs": 2,
        "max_tool_calls": 3,
        "service_tier": "auto",
    }
    answer = door.ask(RESPONSES, body)
    (item,) = answer.json["output"]
    assert json.loads(item["content"][0]["text"]) == FILLED
    sent = left(server)
    assert (sent["reasoning_effort"], sent["verbosity"]) == ("high", "high")
    assert not [secret for secret in SECRETS if secret in asked(server)]
    assert {*answer.headers["x-sottovoce-dropped"].split(", ")} == {
        *("reasoning.summary", "include", "truncation", "store", "top_logprobs", "max_tool_calls")
    }


def test_responses_tell_what_a_model_thinks_as_an_item(at_server: tuple[Door, Server]) -> None:
    door, server = at_server
    server.answer = thinking("reasoning_content")
    whole = door.ask(RESPONSES, {"input": TEXT}).json["output"]
    blocks = door.ask(RESPONSES, {"input": TEXT, "stream": True}).body.decode().split("\n\n")
    events = [json.loads(each.split("data: ")[1]) for each in blocks if each]
    streamed = events[-1]["response"]["output"]
    for thought, message in (whole, streamed):
        assert (thought["type"], message["type"]) == ("reasoning", "message")
        assert thought["content"] == [{"type": "reasoning_text", "text": TEXT}]
        assert message["content"][0]["text"] == TEXT
    for kind, index in (("reasoning_text", 0), ("output_text", 1)):
        own = [each for each in events if each["type"] == f"response.{kind}.delta"]
        assert "".join(each["delta"] for each in own) == TEXT
        assert {each["output_index"] for each in own} == {index}
    again = [user(TEXT), *whole, user("Jorvane?")]
    assert door.ask(RESPONSES, {"input": again}).status == 200
