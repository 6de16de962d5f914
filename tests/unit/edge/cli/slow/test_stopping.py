"""`sotto serve` ends within its bound, whatever streams are open and whatever its threads do."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from bench.live.testbed import free_address
from sottovoce.edge.http.endpoints import read_key
from sottovoce.edge.server import GRACE_SECONDS
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_chat_pb2_grpc
from sottovoce.v1 import generation_pb2 as generation
from tests.support.openai_endpoint import Door
from tests.support.paths import ROOT
from tests.support.raw_heads import head
from tests.support.upstream_server import Server, event, openai_server
from tests.unit.edge.cli.conftest import Device

STREAMS = 16
MARGIN = 10.0
"""Seconds for the process to begin and to end on a busy machine."""

SERVE = """
from sottovoce.edge.cli import main
from sottovoce.edge import server
from tests.support.agent import engine
from tests.support.small_bundle import LexiconTagger
serve = server.serve
def with_lexicon(config, **named):
    serve(config, engine=engine(config, LexiconTagger()), **named)
server.serve = with_lexicon
main(["serve", "--json", "--openai", "ADDRESS"])
"""
STUCK = """
import threading
from sottovoce.edge.tasks.chat import Chat
def chat(self, request, stoppable=lambda stop: None, before=Chat.chat):
    events = before(self, request, stoppable)
    yield next(events)
    yield next(events)
    threading.Event().wait()
Chat.chat = chat
"""
WARMING = """
import threading
from sottovoce.edge.tasks.engine import Engine
Engine.warm = lambda self: threading.Event().wait()
"""
FIRST = {"read": "", "unread": "", "silent": "", "stuck": STUCK, "warming": WARMING}


@pytest.fixture
def server() -> Iterator[tuple[Server, threading.Event]]:
    """Answers without end, a piece now and then; or, once the event is set, with silence."""
    silent, go = threading.Event(), threading.Event()

    def answer(_: dict[str, Any]) -> Iterator[bytes]:
        yield event("so ")
        while not go.wait(60 if silent.is_set() else 0.02):
            yield event("so ")

    with openai_server() as running:
        running.answer = answer
        yield running, silent
        go.set()


@contextmanager
def served(device: Device, first: str) -> Iterator[tuple[subprocess.Popen[str], Door]]:
    """Run a daemon with its OpenAI endpoint in its own process."""
    address = free_address()
    with subprocess.Popen(
        [sys.executable, "-c", first + SERVE.replace("ADDRESS", address)],
        env={**device.environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())
            yield process, Door(address, read_key(device.config.agent.state))
        finally:
            process.kill()


def drained(take: Callable[[], object]) -> None:
    """Read to the end on a new thread."""

    def run() -> None:
        with suppress(OSError, grpc.RpcError, StopIteration):
            while take():
                pass

    threading.Thread(target=run).start()


@pytest.mark.parametrize("how", FIRST)
def test_a_daemon_with_open_streams_ends_within_its_grace(
    new_device: Callable[..., Device],
    small_bundle_folder: Path,
    server: tuple[Server, threading.Event],
    how: str,
) -> None:
    """16 gRPC and 16 HTTP calls: reading, not reading, a silent server, stuck threads, and a bundle
    that still loads."""
    upstream, silent = server
    if how == "silent":
        silent.set()
    device = new_device(small_bundle_folder, SOTTO_CHAT_UPSTREAM=upstream.url)
    turn = chats.ChatTurn(role=generation.ROLE_USER, text="a lamp")
    body = json.dumps({"messages": [{"role": "user", "content": "a lamp"}], "stream": True})
    with ExitStack() as open_, served(device, FIRST[how]) as (process, door):
        channel = open_.enter_context(
            grpc.insecure_channel(device.environment["SOTTO_AGENT_LISTEN"])
        )
        chat = edge_chat_pb2_grpc.EdgeChatServiceStub(channel).Chat
        asked = head(door, f"Content-Length: {len(body)}", "POST", "/v1/chat/completions") + body
        for number in range(STREAMS):
            call = chat(chats.ChatRequest(turns=[turn], conversation=f"c{number}"))
            assert [next(call).WhichOneof("event") for _ in range(2)] == ["departed", "delta_text"]
            line = open_.enter_context(closing(socket.create_connection(door.place, timeout=60)))
            line.sendall(asked.encode())
            while b"so " not in line.recv(1 << 16):
                pass
            if how == "read":
                drained(lambda call=call: next(call))
                drained(lambda line=line: line.recv(1 << 16))
        begun = time.monotonic()
        process.terminate()
        assert process.wait(GRACE_SECONDS + 30) == 0
        assert time.monotonic() - begun < GRACE_SECONDS + MARGIN
