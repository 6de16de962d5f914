"""How likely tokens are is read in the forms that servers tell it in, and in no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from sottovoce.core.errors import InvalidInput, NotFound, Overloaded, SottovoceError, Unavailable
from sottovoce.edge.client.openai_client import NextTokens, OpenAIClient, likeliest
from sottovoce.edge.config import ChatConfig
from tests.support.few_shot_server import few_shot_server, legacy, listed
from tests.support.upstream_server import Server

PROMPT = "Text: the river\nLabel: wet\n\nText: a stone\nLabel: dry\n\nText: the river\nLabel:"


def asked(server: Server) -> dict[str, float]:
    return NextTokens(OpenAIClient(ChatConfig(upstream=server.url)), "m").after(PROMPT)


@pytest.mark.parametrize("form", [legacy, listed])
def test_both_forms_are_read(form: Callable[[dict[str, Any]], Any]) -> None:
    with few_shot_server(form) as server:
        assert asked(server) == {" wet": -18.0, " dry": -20.0, "\n": -30.0}
        ((path, headers, body),) = server.asked
    assert path == "/v1/completions"
    assert headers["User-Agent"] == "sottovoce"
    assert body == {
        "model": "m",
        "prompt": PROMPT,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 20,
    }


def test_a_server_that_gives_few_tokens_is_asked_for_few() -> None:
    with few_shot_server() as server:
        usual = server.answer

        def strict(body: dict[str, Any]) -> Iterable[bytes]:
            server.status = 200
            return usual(body)

        server.answer, server.status = strict, 400
        assert asked(server)[" wet"] == -18.0
        assert [body["logprobs"] for _, _, body in server.asked] == [20, 5]
        server.answer, server.status = usual, 400
        with pytest.raises(InvalidInput, match="400"):
            asked(server)


@pytest.mark.parametrize(
    ("status", "error"), [(404, NotFound), (429, Overloaded), (500, Unavailable)]
)
def test_a_refusal_is_told(status: int, error: type[SottovoceError]) -> None:
    with few_shot_server() as server:
        server.status = status
        with pytest.raises(error, match=str(status)):
            asked(server)


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {"choices": []},
        {"choices": [{"text": "wet"}]},
        {"choices": [{"logprobs": None}]},
        {"choices": [{"logprobs": {"top_logprobs": [None]}}]},
        {"choices": [{"logprobs": {"top_logprobs": [{" wet": "likely"}]}}]},
        {"choices": [{"logprobs": {"top_logprobs": [{" wet": float("nan")}]}}]},
        {"choices": [{"logprobs": {"content": [{"top_logprobs": [{"token": [], "logprob": 1}]}]}}]},
        {"choices": [{"logprobs": {"top_logprobs": [{" wet": 10**400}]}}]},
        {"choices": {"0": 1}},
        "x" * (1 << 20),
    ],
)
def test_an_answer_that_tells_nothing_is_an_error(told: Any) -> None:
    with few_shot_server(lambda body: told) as server, pytest.raises(Unavailable):
        asked(server)


def test_what_is_no_json_is_an_error_that_quotes_nothing() -> None:
    with few_shot_server() as server:
        for parts in ([b"secret"], [b"[" * 100_000], [json.dumps("x").encode(), b"secret"]):
            server.answer = lambda body, parts=parts: parts
            with pytest.raises(Unavailable) as error:
                asked(server)
            assert "secret" not in str(error.value)
        server.headers = {"Content-Type": "text/html"}
        with pytest.raises(Unavailable) as error:
            asked(server)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("tokens", "place"),
    [
        ({" wet": -1.0, " dry": -2.0}, 0),
        ({" wet": -2.0, " dry": -1.0}, 1),
        ({"W": -1.0, " dry": -2.0}, 0),
        ({" DRY": -1.0}, 1),
        ({"\n": -1.0, " ": -1.5, " d": -2.0}, 1),
        ({" dryer": -1.0, " wet": -2.0}, 0),
        ({" maybe": -1.0}, None),
        ({}, None),
    ],
)
def test_a_label_is_named_by_a_token_that_begins_it(
    tokens: dict[str, float], place: int | None
) -> None:
    assert likeliest(tokens, ["wet", "dry"]) == place


def test_a_token_that_begins_two_labels_names_neither() -> None:
    assert likeliest({" s": -1.0, " sp": -2.0}, ["science", "sports"]) == 1
