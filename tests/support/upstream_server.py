"""A server with OpenAI's protocol over real HTTP; a test chooses its answers."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PIECE = 3
Answering = Callable[[dict[str, Any]], Iterable[bytes]]
"""Makes an answer's bytes from the body of a request."""


def event(text: str, *, reason: str | None = None, chat: bool = True) -> bytes:
    """One event of an answer."""
    part: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
    return data({"choices": [{"index": 0, "finish_reason": reason, **part}]})


def data(told: Any) -> bytes:
    """An event of any content."""
    return f"data: {json.dumps(told)}\n\n".encode()


def echo(body: dict[str, Any]) -> Iterator[bytes]:
    """Answer with the last message, a few characters at a time."""
    chat = "messages" in body
    text = body["messages"][-1]["content"] if chat else body["prompt"]
    yield b": welcome\n\n"
    for start in range(0, len(text), PIECE):
        yield event(text[start : start + PIECE], chat=chat)
    yield event("", reason="stop", chat=chat)
    yield data({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 6}})
    yield b"data: [DONE]\n\n"


def drip(piece: bytes) -> Callable[[dict[str, Any]], Iterator[bytes]]:
    """A piece now and then, without an end that a test would wait for."""

    def answer(_: dict[str, Any]) -> Iterator[bytes]:
        for _turn in range(500):
            time.sleep(0.02)
            yield piece

    return answer


class Server(ThreadingHTTPServer):
    """Behaviour is changed by setting attributes."""

    daemon_threads = False
    block_on_close = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Answering = echo
        self.status: int | Callable[[dict[str, Any]], int] = 200
        """Of every answer, or of the answer to a body."""
        self.headers = {"Content-Type": "text/event-stream"}
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        """Path, headers and body of each request."""
        self.models: Any = {"data": [{"id": "a-model"}]}
        """What is said to a question for models; None is an error."""
        self.listing: Iterable[bytes] | None = None
        """What is said to it instead, piece by piece."""
        self.gone = threading.Event()
        """Set when a client went away in the middle of an answer."""
        self.tls = False

    @property
    def url(self) -> str:
        return f"http{'s' * self.tls}://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away: that is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        status = self.server.status
        self.send_response(status(body) if callable(status) else status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for part in self.server.answer(body):
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            self.server.gone.set()

    def do_GET(self) -> None:
        listed = json.dumps(self.server.models).encode()
        self.send_response(500 if self.server.models is None else 200)
        if self.server.listing is None:
            self.send_header("Content-Length", str(len(listed)))
        self.end_headers()
        try:
            for part in self.server.listing or [listed]:
                self.wfile.write(part)
        except OSError:
            self.server.gone.set()

    def log_message(self, *_: Any) -> None:
        """Not in a test's output."""


@contextmanager
def openai_server(certificate: tuple[Path, Path] | None = None) -> Iterator[Server]:
    """Runs for a test; with a certificate and its key it speaks TLS."""
    with Server() as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.tls = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
