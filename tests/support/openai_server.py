"""A local HTTP server that speaks as much of OpenAI's protocol as is streamed from one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Lines = Callable[[dict[str, Any]], Iterator[bytes]]
"""What a request is answered with, line by line."""


@dataclass
class OpenAIServer:
    """The received requests, and the answers to give."""

    url: str
    answer: Lines
    status: int = 200
    asked: list[tuple[str, dict[str, str], dict[str, Any]]] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)


def chat(*deltas: str, finish: str | None = "stop", usage: tuple[int, int] | None = None) -> Lines:
    """A conversation's answer."""
    return _lines([{"delta": {"content": delta}} for delta in deltas], {"delta": {}}, finish, usage)


def text(*deltas: str, finish: str | None = "length") -> Lines:
    """A text's continuation."""
    return _lines([{"text": delta} for delta in deltas], {"text": ""}, finish, None)


def _lines(
    choices: list[dict[str, Any]],
    last: dict[str, Any],
    finish: str | None,
    usage: tuple[int, int] | None,
) -> Lines:
    def lines(_: dict[str, Any]) -> Iterator[bytes]:
        yield b": a comment\n"
        for choice in choices:
            yield event({"choices": [{"index": 0, **choice, "finish_reason": None}]})
        if finish:
            yield event({"choices": [{"index": 0, **last, "finish_reason": finish}]})
        if usage:
            counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
            yield event({"choices": [], "usage": counts})
        if finish:
            yield b"data: [DONE]\n\n"

    return lines


def event(found: dict[str, Any]) -> bytes:
    """A line of the stream."""
    return b"data: " + json.dumps(found).encode() + b"\n\n"


@contextmanager
def openai_server(answer: Lines) -> Iterator[OpenAIServer]:
    """Run the server on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            running.asked.append((self.path, dict(self.headers), body))
            self.send_response(running.status)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            if running.status != 200:
                self.wfile.write(b'{"error": {"message": "your prompt was: SECRET"}}')
                return
            try:
                for line in running.answer(body):
                    self.wfile.write(line)
                    self.wfile.flush()
            except OSError:
                running.hung_up.set()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = OpenAIServer(f"http://127.0.0.1:{server.server_port}/v1", answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
