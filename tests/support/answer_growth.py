"""Measure the memory that one answer takes while it arrives, in a separate process.

As a program it asks the server at URL for SIZE characters, and prints the growth of its peak
resident memory in bytes.
"""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sottovoce.core.platform import memory
from sottovoce.edge.client.generation import OpenAIWriter
from sottovoce.edge.config import ChatConfig
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, opened
from tests.support.paths import ROOT
from tests.support.processes import environment
from tests.support.small_bundle import LexiconTagger
from tests.support.upstream_server import Server, data

PIECE = 48
"""Characters of a piece, as coding agents' servers send them."""

_TOOL = "write_file"
_PLACES = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_PEAK, _ANEW = re.compile(r"VmHWM:\s+(\d+) kB"), "5"  # proc(5)


def long_call(body: dict[str, Any]) -> Iterator[bytes]:
    """Return one call with arguments as long as the model's name states."""
    size, name = int(body["model"][1:]), body["tools"][0]["function"]["name"]

    def event(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return data({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    written = json.dumps({"text": ("x = f(y); " * (size // 10 + 1))[: size - len('{"text": ""}')]})
    head = {"index": 0, "id": "theirs", "type": "function"}
    yield event({"tool_calls": [{**head, "function": {"name": name, "arguments": ""}}]})
    for start in range(0, size, PIECE):
        function = {"arguments": written[start : start + PIECE]}
        yield event({"tool_calls": [{"index": 0, "function": function}]})
    yield event({}, "tool_calls")
    yield b"data: [DONE]\n\n"


def long_text(body: dict[str, Any]) -> Iterator[bytes]:
    """Return a text as long as the model's name states, four characters at a time."""
    for _ in range(0, int(body["model"][1:]), 4):
        yield data({"choices": [{"index": 0, "delta": {"content": "a b "}}]})
    yield data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield b"data: [DONE]\n\n"


def growth(server: Server, bundle: Path, through: str, size: int) -> float:
    """By how many times ``size`` the peak grew; ``through`` is "writer" or "conversation"."""
    command = [sys.executable, "-m", __name__, server.url, str(bundle), through, str(size)]
    run = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    return int(run.stdout) / size


def _grown(ask: Callable[[int], int], size: int) -> int:
    memory.bound_heap()  # as the daemon does
    assert ask(size // 5) == size // 5  # what is opened, imported and compiled once
    gc.collect()
    status, anew = _PLACES
    anew.write_text(_ANEW)
    before = _peak(status)
    assert ask(size) == size
    return _peak(status) - before


def _peak(status: Path) -> int:
    found = _PEAK.search(status.read_text())
    assert found
    return int(found[1]) << 10


def _through_the_writer(writer: OpenAIWriter, size: int) -> int:
    turn = generation.ReleasedTurn(role=generation.ROLE_USER, released_text="a lamp")
    request = generation.GenerateRequest(
        conversation=generation.ReleasedConversation(turns=[turn]),
        tools=[generation.ReleasedTool(released_name=_TOOL, released_parameters="{}")],
    )
    pieces = writer.write(f"m{size}", request, lambda stop: None)
    return sum(len(each.tool_call.released_arguments or each.delta_text) for each in pieces)


def _through_a_conversation(device: Parts, size: int) -> int:
    turn = chats.ChatTurn(role=generation.ROLE_USER, text="a lamp")
    tool = chats.ChatTool(name=_TOOL, parameters="{}")
    request = chats.ChatRequest(turns=[turn], tools=[tool], model=f"m{size}")
    pieces = device.conversations.chat(request, lambda stop: None)
    return sum(len(each.tool_call.arguments or each.delta_text) for each in pieces)


def _main(url: str, bundle: str, through: str, size: str) -> None:
    if through == "writer":
        ask = partial(_through_the_writer, OpenAIWriter(ChatConfig(upstream=url)))
        print(_grown(ask, int(size)))
        return
    with TemporaryDirectory() as folder:
        config = configured(Path(folder), bundle=Path(bundle), SOTTO_CHAT_UPSTREAM=url)
        with opened(config, LexiconTagger()) as device:
            print(_grown(partial(_through_a_conversation, device), int(size)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
