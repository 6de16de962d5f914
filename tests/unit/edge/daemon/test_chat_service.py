"""Conversations over the daemon's socket: in pieces, with error codes, ended when the app goes."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from sottovoce.core.text.tagger import Tagger
from sottovoce.edge.config import Config
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import edge_chat_pb2_grpc
from sottovoce.v1 import generation_pb2 as generation
from tests.support.agent import configured, running
from tests.support.echo import EchoingCloud, echo, echoing_cloud
from tests.support.waiting import until

TEXT = "Anna saw Mark and the lamp by the pond"
App = edge_chat_pb2_grpc.EdgeChatServiceStub


@pytest.fixture
def both(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> Iterator[tuple[App, EchoingCloud]]:
    with echoing_cloud() as cloud:
        config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        with running(config, lexicon_tagger) as address, grpc.insecure_channel(address) as channel:
            yield App(channel), cloud


def request(text: str = TEXT) -> chats.ChatRequest:
    return chats.ChatRequest(turns=[chats.ChatTurn(role=generation.ROLE_USER, text=text)])


def test_an_answer_comes_in_pieces_while_it_is_written(both: tuple[App, EchoingCloud]) -> None:
    app, cloud = both
    written = threading.Semaphore(0)

    def slowly(asked: generation.GenerateRequest) -> Iterator[str]:
        for word in asked.conversation.turns[-1].released_text.split(" "):
            written.acquire()
            yield f"{word} "

    cloud.answer = slowly
    answer = app.Chat(request())
    assert next(answer).WhichOneof("event") == "departed"
    shown = ""
    try:
        for number in range(1, 7):
            written.release()
            shown += next(answer).delta_text
            assert 0 <= number - len(shown.split()) <= 1  # one is held back if a neighbour decides
    finally:
        written.release(99)  # whatever was seen, and if the agent asked twice: nobody writes on
    *rest, last = answer
    assert shown + "".join(event.delta_text for event in rest) == f"{TEXT} "
    assert last.answered.finish_reason == generation.FINISH_REASON_STOP


def test_who_goes_away_takes_the_answer_along(both: tuple[App, EchoingCloud]) -> None:
    app, cloud = both
    waiting = threading.Event()

    def never(asked: generation.GenerateRequest) -> Iterator[str]:
        yield "so "
        while not cloud.cancelled.wait(0.05):
            waiting.set()

    cloud.answer = never
    answer = app.Chat(request())
    assert next(answer).WhichOneof("event") == "departed"
    assert waiting.wait(60)
    answer.cancel()
    assert cloud.cancelled.wait(60)
    cloud.answer = lambda asked: itertools.repeat("and so on ", 3)
    assert "".join(event.delta_text for event in app.Chat(request())) == "and so on " * 3


def test_errors_have_codes(both: tuple[App, EchoingCloud]) -> None:
    app, cloud = both
    for bad in (chats.ChatRequest(), request(" ")):
        with pytest.raises(grpc.RpcError) as caught:
            [*app.Chat(bad)]
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError) as caught:
        [*app.Complete(chats.CompleteRequest(text="a lamp", model="nobody's"))]
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert cloud.asked == []
    ended = [*app.Complete(chats.CompleteRequest(text=TEXT))]
    assert "".join(event.delta_text for event in ended) == TEXT


@contextmanager
def process(config: Config) -> Iterator[tuple[subprocess.Popen[bytes], App]]:
    """Run a separate daemon to kill."""
    settings = {
        "HOME": str(config.bundle.path.parents[2]),
        "SOTTO_AGENT_LISTEN": config.agent.listen,
        "SOTTO_CLOUD_ADDRESS": config.cloud.address,
        "SOTTO_CLOUD_TENANT": config.cloud.tenant,
        "SOTTO_CLOUD_TOKEN_FILE": str(config.cloud.token_file),
        "SOTTO_PRIVACY_LARGEST_ETA": "20000",
    }
    code = (
        "from sottovoce.core.privacy import inspection; inspection.inspect = lambda *_, **__: ();"
        "from sottovoce.edge.cli import main; main()"
    )
    daemon = subprocess.Popen([sys.executable, "-c", code, "serve"], env={**os.environ, **settings})
    try:
        with grpc.insecure_channel(config.agent.listen) as channel:
            grpc.channel_ready_future(channel).result(60)
            yield daemon, App(channel)
    finally:
        daemon.kill()
        daemon.wait(60)


def test_killed_in_the_middle_nothing_is_charged_twice_and_it_goes_on_as_it_began(
    tmp_path: Path, small_bundle_folder: Path
) -> None:
    asked = request("Anna saw Mark, who has a cough")
    asked.privacy.policy = "names"  # which charges the cough
    with echoing_cloud() as cloud:
        config = configured(tmp_path, bundle=small_bundle_folder, SOTTO_CLOUD_ADDRESS=cloud.address)
        never = threading.Event()
        cloud.answer = lambda _: ((never.wait(30) and "") or "so " for _ in range(2))
        with process(config) as (daemon, app):
            answer = app.Chat(asked)
            first = next(answer).departed
            assert first.charged == 15
            until(lambda: cloud.asked)
            daemon.kill()
            with pytest.raises(grpc.RpcError) as caught:
                list(answer)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        never.set()
        cloud.answer = echo
        with process(config) as (_, app):
            events = [*app.Chat(asked)]
        assert list(events[0].departed.turns) == list(first.turns)
        assert events[0].departed.charged == 0
        shown = "".join(event.delta_text for event in events)
        assert shown.startswith("Anna saw Mark, who has a ")
