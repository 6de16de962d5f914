"""A secret in every field of every endpoint: it is refused, or not among the bytes that leave.

Each probe is a request with the secret at one place. Whatever the status, the server behind must
not have got the secret, in any case of its letters, not in the body, not in the path, not in a
header; and where the place is one for text, the request must have gone through without it.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.support.openai_endpoint import Door
from tests.support.openai_upstream import asked
from tests.support.upstream_server import Server

CANARY: Final = "Zyxglorp"

FUNCTION: Final = {
    "name": "find",
    "description": "finds a lamp",
    "parameters": {
        "type": "object",
        "properties": {"place": {"type": "string", "description": "the pond"}},
        "required": ["place"],
    },
}
CALL: Final = {
    "id": "call_a",
    "type": "function",
    "function": {"name": "find", "arguments": '{"place": "pond", "more": {"n": [1]}}'},
}
CHAT: Final[dict[str, Any]] = {
    "model": "default",
    "messages": [
        {"role": "system", "content": "the garden"},
        {"role": "developer", "content": [{"type": "text", "text": "the river"}]},
        {"role": "user", "content": "the pond"},
        {"role": "assistant", "content": "a lamp", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_a", "content": "the lamp"},
        {"role": "user", "content": [{"type": "text", "text": "the pond"}]},
    ],
    "tools": [{"type": "function", "function": FUNCTION}],
    "stop": ["the end"],
}
COMPLETION: Final[dict[str, Any]] = {"prompt": "the pond"}
RESPONSE: Final[dict[str, Any]] = {
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "the pond"}]},
        {"type": "function_call", "call_id": "a", "name": "find", "arguments": '{"place": "x"}'},
        {"type": "function_call_output", "call_id": "a", "output": "the lamp"},
    ],
    "tools": [{"type": "function", **FUNCTION}],
}

Place = tuple[str | int, ...]
_SCHEMA: Final = ("tools", 0, "function", "parameters")

"""Places for text, or for what is nobody's business: such a request is answered."""

REFUSED: Final[list[tuple[str, Place]]] = [
    *(
        ("chat/completions", place)
        for place in (
            ("model",),
            ("surprise",),
            ("response_format",),
            ("service_tier",),
            ("reasoning_effort",),
            ("logit_bias",),
            ("functions",),
            ("prediction",),
            ("tool_choice",),
            ("stream_options",),
            ("messages", 0, "role"),
            ("messages", 0, "surprise"),
            ("messages", 1, "content", 0, "type"),
            ("messages", 1, "content", 0, "surprise"),
            ("messages", 2, "audio"),
            ("messages", 3, "refusal"),
            ("messages", 3, "function_call"),
            ("messages", 3, "annotations"),
            ("messages", 3, "tool_calls", 0, "type"),
            ("messages", 3, "tool_calls", 0, "surprise"),
            ("messages", 3, "tool_calls", 0, "function", "surprise"),
            ("messages", 4, "tool_call_id"),
            ("tools", 0, "type"),
            ("tools", 0, "surprise"),
            ("tools", 0, "function", "surprise"),
            (*_SCHEMA, "type"),
            (*_SCHEMA, "$ref"),
            (*_SCHEMA, "surprise"),
            (*_SCHEMA, "properties", "place", "type"),
        )
    ),
    *(("completions", place) for place in (("model",), ("suffix",), ("logprobs",), ("surprise",))),
    *(
        ("responses", place)
        for place in (
            ("model",),
            ("previous_response_id",),
            ("prompt",),
            ("truncation",),
            ("surprise",),
            ("input", 0, "role"),
            ("input", 0, "type"),
            ("input", 1, "surprise"),
            ("tools", 0, "surprise"),
        )
    ),
]
"""Places where nothing but what is known may stand."""

BODIES: Final = {"chat/completions": CHAT, "completions": COMPLETION, "responses": RESPONSE}


def planted(body: dict[str, Any], place: Place) -> dict[str, Any]:
    """The request with the secret at a place, which need not have been there."""
    found = copy.deepcopy(body)
    inner: Any = found
    for step in place[:-1]:
        if isinstance(step, int) and isinstance(inner, str):
            break
        inner = inner[step]
    last = place[-1]
    if isinstance(inner, str):  # a string may be a list of one
        found[str(place[0])] = [CANARY]
    else:
        inner[last] = [CANARY] if last in ("enum", "examples") else CANARY
    return found


@pytest.fixture
def probed(
    at_server: tuple[Door, Server], caplog: pytest.LogCaptureFixture
) -> Iterator[tuple[Door, Server]]:
    door, server = at_server
    with caplog.at_level(logging.DEBUG):
        yield door, server
    assert CANARY.lower() not in asked(server).lower()
    assert CANARY.lower() not in caplog.text.lower()


def shown(probe: tuple[str, Place]) -> str:
    endpoint, place = probe
    return f"{endpoint} {'.'.join(map(str, place))}"


@pytest.mark.parametrize("probe", REFUSED, ids=shown)
def test_a_secret_where_none_may_stand_is_refused(
    probed: tuple[Door, Server], probe: tuple[str, Place]
) -> None:
    door, server = probed
    endpoint, place = probe
    answer = door.ask(f"/v1/{endpoint}", planted(BODIES[endpoint], place))
    assert answer.status in (400, 404)
    assert server.asked == []


@pytest.mark.parametrize(
    "fields", [{"surprise": CANARY}, {"model": CANARY}, {"dimensions": CANARY}]
)
def test_embeddings_are_probed_too(probed: tuple[Door, Server], fields: dict[str, str]) -> None:
    door, server = probed
    answer = door.ask("/v1/embeddings", {"input": "the pond", **fields})
    assert answer.status in (400, 404)
    assert server.asked == []


def test_paths_queries_and_headers_stay_here(probed: tuple[Door, Server]) -> None:
    door, server = probed
    assert door.ask(f"/v1/models?{CANARY}", user_agent=CANARY).status == 200
    assert door.ask(f"/v1/{CANARY}").status == 404
    headers = {"x_request_id": CANARY, "openai_organization": CANARY, "cookie": CANARY}
    asked_with = door.ask("/v1/chat/completions", CHAT, x_sottovoce_conversation=CANARY, **headers)
    assert asked_with.status == 200
    for name in ("level", "mechanism", "policy"):
        header = {f"x_sottovoce_{name}": CANARY}
        assert door.ask("/v1/chat/completions", CHAT, **header).status in (400, 404)
    assert len(server.asked) == 1
