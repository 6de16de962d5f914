"""`sotto generate`: texts one a line, in order; errors with their line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sottovoce.edge.state.database import Store
from sottovoce.edge.state.outbox import Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training
from tests.support.upstream_server import Server, openai_server

from .conftest import Device


@pytest.fixture
def server() -> Iterator[Server]:
    with openai_server() as found:
        yield found


def test_lines_are_continued_in_order(
    new_device: Callable[..., Device], tagged_bundle: Path, server: Server
) -> None:
    device = new_device(tagged_bundle, SOTTO_CHAT_UPSTREAM=server.url)
    source = device.folder / "texts.txt"
    source.write_text("Zelphira saw the lamp\nMark saw Zelphira\n")
    assert device.sotto("generate", "m", "--input", str(source)).stdout == source.read_text()
    assert [path for path, _, _ in server.asked] == ["/v1/completions"] * 2
    assert "Zelphira" not in f"{server.asked}"
    told = device.json("generate", "m", stdin=source.read_bytes())
    assert [each["text"] for each in told] == source.read_text().splitlines()
    assert [each["charged"] for each in told] == [0, 0]
    result = device.sotto("generate", "m", stdin="a lamp\n\n", code=2)
    assert (result.stdout, "line 2: there is nothing" in result.stderr) == ("a lamp\n", True)
    server.status = 401
    assert "chat.key_file" in device.sotto("generate", "m", "a lamp", code=7).stderr


def test_the_name_of_an_adapter_does_not_leave(
    new_device: Callable[..., Device], tagged_bundle: Path, server: Server
) -> None:
    device = new_device(tagged_bundle, SOTTO_CHAT_UPSTREAM=server.url)
    assert device.sotto("generate", "mine", "a lamp").stdout == "a lamp\n"
    store = Store.open(device.config.agent.state)
    record, job = agent.Customization(id="one", adapter="mine"), training.CreateJobRequest()
    with store.transaction() as transaction:
        Outbox(store).insert(transaction, record, "request", job, {})
    store.close()
    assert "does not leave" in device.sotto("generate", "mine", "a lamp", code=2).stderr
    assert len(server.asked) == 1
