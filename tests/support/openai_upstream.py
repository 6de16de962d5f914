"""An OpenAI endpoint before a foreign server that records every byte of its requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sottovoce.core.text.tagger import Tagger
from tests.support.openai_endpoint import Door, opened_endpoint
from tests.support.upstream_server import Server, data, openai_server


@contextmanager
def before_a_server(
    folder: Path, bundle: Path, tagger: Tagger | None = None, **environ: str
) -> Iterator[tuple[Door, Server]]:
    """An OpenAI endpoint and the server that answers behind it, by default with an echo."""
    with (
        openai_server() as server,
        opened_endpoint(folder, bundle, tagger, SOTTO_CHAT_UPSTREAM=server.url, **environ) as door,
    ):
        yield door, server


def asked(server: Server) -> str:
    """All that the server was told, as text."""
    return json.dumps(server.asked, ensure_ascii=False, default=str)


def calling(
    *calls: tuple[str, Callable[[dict[str, Any]], Any]], text: str = ""
) -> Callable[[dict[str, Any]], Iterator[bytes]]:
    """An answer that calls functions: each by the name at a place of the request's tools, with
    arguments made from the body, a few characters at a time."""

    def answer(body: dict[str, Any]) -> Iterator[bytes]:
        def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
            return data({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

        if text:
            yield event({"content": text})
        for number, (name, arguments) in enumerate(calls):
            function = {"name": name or body["tools"][0]["function"]["name"], "arguments": ""}
            head = {"index": number, "id": f"theirs{number}", "type": "function"}
            yield event({"tool_calls": [{**head, "function": function}]})
            written = json.dumps(arguments(body))
            for start in range(0, len(written), 5):
                part = {"index": number, "function": {"arguments": written[start : start + 5]}}
                yield event({"tool_calls": [part]})
        yield event({}, "tool_calls")
        yield b"data: [DONE]\n\n"

    return answer
