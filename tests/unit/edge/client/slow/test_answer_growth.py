"""The memory that an answer takes grows with its length, however small its pieces are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.core.errors import SottovoceError
from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.client import generation as writers
from sottovoce.edge.client.generation import LARGEST_ANSWER, OpenAIWriter
from sottovoce.edge.config import ChatConfig
from sottovoce.edge.state.conversations import Conversations
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation
from tests.support import upstream_server
from tests.support.agent import configured, opened
from tests.support.answer_growth import growth, long_call, long_text
from tests.support.openai_upstream import calling
from tests.support.upstream_server import Server

measured = pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")


@pytest.fixture
def server() -> Iterator[Server]:
    with upstream_server.openai_server() as running:
        yield running


@measured
@pytest.mark.parametrize("size", [192_000, 1_000_000])
def test_a_long_call_takes_less_than_three_times_its_size_while_it_arrives(
    server: Server, small_bundle_folder: Path, size: int
) -> None:
    server.answer = long_call
    assert growth(server, small_bundle_folder, "writer", size) < 3


@measured
@pytest.mark.parametrize("answer", [long_call, long_text])
def test_restoring_and_noting_an_answer_takes_a_few_copies_of_it(
    server: Server, small_bundle_folder: Path, answer: upstream_server.Answering
) -> None:
    """Restoration reads JSON and writes JSON, and the digest of a call does so again."""
    server.answer = answer
    assert growth(server, small_bundle_folder, "conversation", 400_000) < 8


@pytest.mark.parametrize("part", ["name", "arguments"])
def test_a_call_without_end_is_cut_off_while_it_arrives(server: Server, part: str) -> None:
    piece = {"index": 0, "function": {"name": "", "arguments": "", part: "x" * 4_096}}
    event = upstream_server.data({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 16 * LARGEST_ANSWER:
            sent += 4_096
            yield event

    server.answer = lambda body: endless()
    writer = OpenAIWriter(ChatConfig(upstream=server.url))
    request = generation.GenerateRequest(released_text="a lamp")
    with pytest.raises(SottovoceError, match=f"more than {LARGEST_ANSWER} characters") as caught:
        [*writer.write("", request, lambda stop: None)]
    assert caught.value.fix
    assert server.gone.wait(60)
    assert sent < 16 * LARGEST_ANSWER


def test_calls_and_text_share_one_bound(
    server: Server,
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writers, "LARGEST_ANSWER", 1_000)
    server.answer = calling(("", lambda body: {"text": "x" * 600}), text="y" * 600)
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CHAT_UPSTREAM=server.url)
    with (
        opened(config, lexicon_tagger) as device,
        pytest.raises(SottovoceError, match="more than 1000 characters"),
    ):
        [*device.conversations.chat(_asking(), lambda stop: None)]


@pytest.mark.parametrize("calls", [2, 60])
def test_a_conversation_is_written_as_often_for_many_calls_as_for_few(
    server: Server,
    tmp_path: Path,
    small_bundle_folder: Path,
    lexicon_tagger: Tagger,
    monkeypatch: pytest.MonkeyPatch,
    calls: int,
) -> None:
    """Each write holds the whole conversation."""
    written: list[object] = []
    keep = Conversations.keep
    monkeypatch.setattr(
        Conversations, "keep", lambda self, held: (written.append(held), keep(self, held))
    )
    server.answer = calling(*[("", lambda body, n=n: {"number": "x" * n}) for n in range(calls)])
    config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CHAT_UPSTREAM=server.url)
    with opened(config, lexicon_tagger) as device:
        events = [*device.conversations.chat(_asking(), lambda stop: None)]
    assert sum(each.WhichOneof("event") == "tool_call" for each in events) == calls
    assert len(written) == 3  # before it leaves, before its calls are given out, at its end


def _asking() -> chats.ChatRequest:
    turn = chats.ChatTurn(role=generation.ROLE_USER, text="a lamp")
    return chats.ChatRequest(turns=[turn], tools=[chats.ChatTool(name="note", parameters="{}")])
