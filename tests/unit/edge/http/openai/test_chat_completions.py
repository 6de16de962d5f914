"""Chats over HTTP leave privatised, and answers come back restored, in OpenAI's form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sottovoce.core.text.tagger import Tagger
from tests.support.echo import EchoingCloud
from tests.support.openai_endpoint import Door, opened_endpoint

TEXT = "Zelphira Quarnivel saw Jorvane at Little Rock, order AX-68042; Zelphira's five lamps leak."
SECRETS = ("Zelphira", "Quarnivel", "Jorvane", "68042")
PATH = "/v1/chat/completions"


def sent(cloud: EchoingCloud) -> list[str]:
    return [turn.released_text for turn in cloud.asked[-1].conversation.turns]


def test_what_leaves_holds_no_secret_and_what_comes_is_turned_back(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, cloud = at_cloud
    answer = door.chat(TEXT, model="default", temperature=0, max_tokens=50, seed=-1, user="Zoe")
    assert answer.status == 200
    body = answer.json
    assert body["object"] == "chat.completion"
    assert body["model"] == "default"
    assert body["id"].startswith("chatcmpl-")
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": TEXT, "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert body["usage"] == {"prompt_tokens": 7, "completion_tokens": 0, "total_tokens": 7}
    asked = cloud.asked[-1]
    on_the_wire = asked.SerializeToString()
    assert not [secret for secret in (*SECRETS, "Zoe") if secret.encode() in on_the_wire]
    assert asked.sampling.HasField("temperature")
    assert asked.sampling.max_tokens == 50


def test_headers_say_what_was_released_and_hold_no_text(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, _ = at_cloud
    answer = door.chat("Zelphira saw Jorvane, who has a cough")
    told = {
        name.removeprefix("x-sottovoce-"): value
        for name, value in answer.headers.items()
        if name.startswith("x-sottovoce-")
    }
    assert int(told.pop("restored")) >= 2
    assert told == {
        "level": "balanced",
        "mechanism": "pct2t.v2",
        "policy": "personal",
        "eta": "15",
        "charged": "0",
        "turns": "1",
        "turns-charged": "1",
        "doubtful": "0",
        "addresses-kept": "0",
    }
    again = door.chat("Zelphira saw Jorvane, who has a cough").headers
    assert (again["x-sottovoce-charged"], again["x-sottovoce-turns-charged"]) == ("0", "0")


def test_a_stream_is_the_same_in_pieces(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    counted = {"include_usage": True}
    answer = door.chat(TEXT, stream=True, stream_options=counted)
    assert answer.headers["content-type"].startswith("text/event-stream")
    first, *deltas, last, usage = answer.events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(d["choices"][0]["delta"]["content"] for d in deltas) == TEXT
    assert len(deltas) > 5
    assert last["choices"][0]["finish_reason"] == "stop"
    assert usage["choices"] == []
    assert usage["usage"]["prompt_tokens"] == 7
    assert len({event["id"] for event in answer.events}) == 1
    assert {event["object"] for event in answer.events} == {"chat.completion.chunk"}


def test_every_role_is_a_turn_and_parts_are_one_text(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, cloud = at_cloud
    parts = [{"type": "text", "text": "Zelphira"}, {"type": "text", "text": "the river"}]
    messages: list[dict[str, Any]] = [
        {"role": "developer", "content": "the pond"},
        {"role": "system", "content": parts, "name": "Zyxglorp"},
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": None},
        {"role": "user", "content": "the river"},
    ]
    assert door.ask(PATH, {"messages": messages}).status == 200
    roles = [turn.role for turn in cloud.asked[-1].conversation.turns]
    assert roles == [1, 1, 3, 2]
    assert sent(cloud)[0] == "the pond"
    first, second = sent(cloud)[1].split("\n")
    assert first != "Zelphira"
    assert second == "the river"
    assert b"Zyxglorp" not in cloud.asked[-1].SerializeToString()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"surprise": "Zyxglorp"}, "surprise"),
        ({"n": 9}, "n"),
        ({"n": True}, "n"),
        ({"logprobs": 1}, "logprobs"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stream": 1}, "stream"),
        ({"stream_options": {"surprise": 1}}, "stream_options.surprise"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": {"a": 1}}, "stop"),
        ({"messages": []}, "messages"),
        ({"messages": "Zelphira"}, "messages"),
        ({"messages": ["Zelphira"]}, "messages[0]"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": "x", "mood": "y"}]}, "messages[0].mood"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0].content[0].type",
        ),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"store": "Zyxglorp"}, "store"),
        ({"model": 5}, "model"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name_and_nothing_leaves(
    at_cloud: tuple[Door, EchoingCloud], fields: dict[str, Any], named: str
) -> None:
    door, cloud = at_cloud
    before = len(cloud.asked)
    answer = door.chat("the pond", **fields)
    assert answer.status == 400
    assert answer.error["param"] == named
    assert answer.error["type"] == "invalid_request_error"
    assert named in answer.error["message"]
    assert len(cloud.asked) == before


def test_a_model_that_nobody_has_is_not_found(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, cloud = at_cloud
    before = len(cloud.asked)
    answer = door.chat("the pond", model="nobody's")
    assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert len(cloud.asked) == before


def test_an_answer_that_breaks_off_ends_with_an_error_and_without_an_end(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, cloud = at_cloud
    cloud.answer, before = (lambda asked: ["so ", "far ", "and "]), cloud.answer
    cloud.ends = False
    try:
        streamed = door.chat("the pond", stream=True)
        whole = door.chat("the pond")
    finally:
        cloud.answer, cloud.ends = before, True
    assert streamed.status == 200
    *_, last = [each for each in streamed.body.decode().split("\n\n") if each]
    assert last.startswith('data: {"error": {"message": "')
    assert "[DONE]" not in streamed.body.decode()
    assert (whole.status, whole.error["code"]) == (503, "unavailable")


def test_without_a_cloud_it_says_so_before_anything_is_charged(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with opened_endpoint(tmp_path, small_bundle_folder, lexicon_tagger) as door:
        answer = door.chat("Zelphira saw Jorvane", stream=True)
        assert answer.status == 409
        assert answer.error["code"] == "not_ready"
        gone = door.ask("/v1/models").json
        assert [each["id"] for each in gone["data"]] == ["default", "local"]
