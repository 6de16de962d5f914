"""How much time and memory does the OpenAI endpoint add to the daemon's own gRPC socket?

Real `sotto serve` processes run over the bundle, with a server behind them that answers at once.

Time: one daemon gets chats by gRPC and by HTTP in turns, in different words of equal length. Each
side's figure is the median time to the first piece of an answer. The cost is the median of the
rounds' differences.

Memory: daemons with gRPC chats and a closed OpenAI endpoint take turns with daemons that have the
same number of HTTP chats. Figures are medians of their peaks (VmHWM).

    python -m bench.openai_endpoint
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import grpc

from bench import console
from bench.console import Figures, Table, table
from bench.live.testbed import Agent
from bench.speed.edge_memory import started
from sottovoce.core.bundle.folder import Bundle
from sottovoce.edge.http.endpoints import read_key
from sottovoce.edge.measure import resident, wait_until_settled
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_agent_pb2_grpc, edge_chat_pb2_grpc
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

CHATS: Final = 50
"""That a daemon has held when its memory is read."""
_ANSWER: Final = ("the", "train", "comes", "in", "the", "morning")

Chat = Callable[[str], float]
"""A function that sends a question and returns the seconds to the first piece of the answer."""


class _Answering(BaseHTTPRequestHandler):
    """A server with OpenAI's interface and one fixed answer."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for word in _ANSWER:
            self._tell({"delta": {"content": f"{word} "}, "finish_reason": None})
        self._tell({"delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def _tell(self, choice: Figures) -> None:
        event = json.dumps({"choices": [{"index": 0, **choice}]})
        self.wfile.write(f"data: {event}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Keep the server's log out of the tables."""


@contextmanager
def upstream() -> Iterator[str]:
    """Run a server that answers at once, and return its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def daemon(bundle: Path, behind: str, *, endpoint: bool) -> Iterator[tuple[Agent, Chat, Chat]]:
    """A daemon, and how to chat with it by gRPC and, with an OpenAI endpoint, by HTTP."""
    settings = {"SOTTO_CHAT_UPSTREAM": behind}
    if endpoint:
        settings["SOTTO_OPENAI_ADDRESS"] = "127.0.0.1:0"
    with tempfile.TemporaryDirectory() as folder:
        running, _ = started(Path(folder), bundle, **settings)
        try:
            with grpc.insecure_channel(running.address) as channel:
                stub = edge_agent_pb2_grpc.EdgeAgentServiceStub(channel)  # type: ignore[no-untyped-call]
                place = stub.GetStatus(agent.GetStatusRequest()).openai_address
                key = read_key(Path(running.env["SOTTO_AGENT_STATE"])) if endpoint else ""
                host, _, port = place.rpartition(":")
                with closing(HTTPConnection(host, int(port or 0))) as line:
                    yield running, by_grpc(channel), by_http(line, key)
        finally:
            running.stop()


def by_grpc(channel: grpc.Channel) -> Chat:
    """Send a question to the daemon's socket."""
    stub = edge_chat_pb2_grpc.EdgeChatServiceStub(channel)  # type: ignore[no-untyped-call]

    def chat(text: str) -> float:
        turn = chats.ChatTurn(role=generation.ROLE_USER, text=text)
        begin, first = time.perf_counter(), 0.0
        for event in stub.Chat(chats.ChatRequest(turns=[turn])):
            if event.delta_text and not first:
                first = time.perf_counter() - begin
        return first

    return chat


def by_http(line: HTTPConnection, key: str) -> Chat:
    """Send questions to the OpenAI endpoint, over one connection."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def chat(text: str) -> float:
        asked = {"messages": [{"role": "user", "content": text}], "stream": True}
        begin, first = time.perf_counter(), 0.0
        line.request("POST", "/v1/chat/completions", json.dumps(asked), headers)
        with line.getresponse() as response:
            for event in response:
                if not first and b'"content"' in event and b'"content": ""' not in event:
                    first = time.perf_counter() - begin
        return first

    return chat


def question(number: int) -> str:
    """Return a new question; all questions differ and have equal length."""
    return f"When does Ramona Sitwell take the train of {100_000 + number} to the lake?"


def times(bundle: Path, behind: str, rounds: int) -> Figures:
    """Milliseconds to the first piece, and the milliseconds that the OpenAI endpoint adds."""
    found: dict[str, list[float]] = {"gRPC": [], "openai": []}
    with daemon(bundle, behind, endpoint=True) as (_, grpc_chat, http_chat):
        sides = [("gRPC", grpc_chat), ("openai", http_chat)]
        for number in range(-3, rounds):
            for place, (name, chat) in enumerate(sides):
                took = chat(question(2 * number + place + 10)) * 1e3
                if number >= 0:
                    found[name].append(took)
            sides.reverse()
    added = [b - a for a, b in zip(found["gRPC"], found["openai"], strict=True)]
    return {
        "first_ms": {name: round(statistics.median(each), 2) for name, each in found.items()},
        "added_ms": round(statistics.median(added), 2),
    }


def memory(bundle: Path, behind: str, repeats: int) -> Figures:
    """Peaks in MB, and the MB that the OpenAI endpoint adds."""
    found: dict[str, list[float]] = {"gRPC": [], "openai": []}
    for _ in range(repeats):
        for name in found:
            with daemon(bundle, behind, endpoint=name == "openai") as (running, *asked):
                assert running.process is not None
                wait_until_settled(running.process.pid)
                for number in range(CHATS):
                    asked[name == "openai"](question(number))
                found[name].append(resident(running.process.pid)["peak"])
    peaks = {name: round(statistics.median(each), 1) for name, each in found.items()}
    return {"peak_mb": peaks, "added_mb": round(peaks["openai"] - peaks["gRPC"], 1)}


def show(figures: Figures) -> Iterator[Table | str]:
    """Return the table."""
    columns = ("first piece, ms", "peak, MB")
    rows = [
        (name, (f"{figures['first_ms'][name]:.2f}", f"{figures['peak_mb'][name]:.1f}"))
        for name in ("gRPC", "openai")
    ]
    yield table("a chat by", ("",), columns, ((name, *cells) for name, cells in rows))
    yield f"the OpenAI endpoint adds {figures['added_ms']:.2f} ms and {figures['added_mb']:.1f} MB"


def main() -> None:
    """Start the daemons, and print the table."""
    parser: argparse.ArgumentParser = console.parser("openai", __doc__)
    parser.add_argument("--rounds", type=int, default=200, help="timed rounds of chats")
    parser.add_argument("--repeats", type=int, default=3, help="daemons of each kind, for memory")
    arguments = parser.parse_args()
    with console.STEPS.status("starting daemons"), upstream() as behind:
        figures = {
            "bundle": Bundle.open(arguments.bundle).id,
            **times(arguments.bundle, behind, arguments.rounds),
            **memory(arguments.bundle, behind, arguments.repeats),
        }
    console.publish(arguments, figures, *show(figures))


if __name__ == "__main__":
    main()
