"""A server with a model that learns from the examples in a prompt.

It answers over HTTP with the label of the most similar examples, and with log-probabilities as
llama-server or vLLM give them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.upstream_server import Server, openai_server

_SHOT = re.compile(r"^Text: (.*)\nLabel:(?: (.*))?$", re.MULTILINE)


def shots(prompt: str) -> list[tuple[str, str]]:
    """Texts with their labels, the last of which is empty."""
    return _SHOT.findall(prompt)


def likely(prompt: str) -> dict[str, float]:
    """Tokens, by how many words their examples share with the text."""
    *shown, (text, _) = shots(prompt)
    words, found = set(text.lower().split()), Counter[str]()
    for each, label in shown:
        found[f" {label[:3]}"] += len(words & set(each.lower().split()))
    return {token: float(count - 20) for token, count in found.items()} | {"\n": -30.0}


def legacy(body: dict[str, Any]) -> Any:
    """As OpenAI's and vLLM's completions have it."""
    return {"choices": [{"text": "x", "logprobs": {"top_logprobs": [likely(body["prompt"])]}}]}


def listed(body: dict[str, Any]) -> Any:
    """As llama-server's have it."""
    tokens = [{"token": t, "logprob": p} for t, p in likely(body["prompt"]).items()]
    return {"choices": [{"logprobs": {"content": [{"token": "x", "top_logprobs": tokens}]}}]}


@contextmanager
def few_shot_server(answer: Callable[[dict[str, Any]], Any] = legacy) -> Iterator[Server]:
    """Run the server; `Server.asked` holds its requests."""
    with openai_server() as server:
        server.headers = {"Content-Type": "application/json"}
        server.answer = lambda body: [json.dumps(answer(body)).encode()]
        yield server
