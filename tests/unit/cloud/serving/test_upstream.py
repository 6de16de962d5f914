"""Texts of a server behind the cloud, over real HTTP: streamed, ended, cancelled, refused."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.serving.generator import Asked, Done, Finish, Sampling
from sottovoce.cloud.serving.upstream import Upstream
from sottovoce.core import errors
from sottovoce.core.rpc import openai
from tests.support import upstream_server
from tests.support.certificates import Certificate
from tests.support.openai_server import OpenAIServer, chat, event, openai_server, text
from tests.support.writers import read, short

TURNS = (
    Turn("system", "Be brief."),
    Turn("user", "Where?"),
    Turn("assistant", "Let me look."),
    Turn("tool", "In Paris."),
)


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with openai_server(chat("In ", "Paris", ".", usage=(11, 3))) as running:
        yield running


def of(server: OpenAIServer, **options: Any) -> Upstream:
    return Upstream(server.url, "big", **options)


def told(server: OpenAIServer, asked: Asked, **options: Any) -> tuple[str, Done]:
    return read(of(server, **options).write("acme", "", "", asked))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log, which holds nothing of the server's or of the prompt."""
    found = [record.getMessage() for record in caplog.records]
    assert not [line for line in found if any(text in line for text in ("SECRET", "Paris", "In "))]
    return found


def test_a_conversation_is_passed_on_and_its_answer_comes_in_pieces(server: OpenAIServer) -> None:
    sampling = Sampling(max_tokens=40, temperature=0.5, top_p=0.9, seed=7)
    asked = Asked(TURNS, sampling, ("END", *"QVWX"))
    pieces = list(of(server, key="k").write("acme", "", "", asked))
    assert [piece.text for piece in pieces] == ["In ", "Paris", ".", ""]
    assert pieces[-1].done == Done(Finish.STOP, 11, 3)
    ((path, headers, body),) = server.asked
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer k"
    assert body == {
        "model": "big",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 40,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END", "Q", "V", "W"],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Where?"},
            {"role": "assistant", "content": "Let me look."},
            {"role": "tool", "content": "In Paris.", "tool_call_id": "0"},
        ],
    }


def test_a_text_is_continued(server: OpenAIServer) -> None:
    server.answer = text("a ", "b", finish="length")
    assert told(server, short("once", 9)) == ("a b", Done(Finish.LENGTH))
    path, headers, body = server.asked[0]
    assert (path, body["prompt"], body["temperature"]) == ("/v1/completions", "once", 0)
    assert "Authorization" not in headers
    assert not {"stop", "seed", "messages"} & set(body)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.LENGTH),
        ("content_filter", Finish.CONTENT_FILTER),
        ("tool_calls", Finish.STOP),
    ],
)
def test_how_it_ended_is_passed_on(server: OpenAIServer, finish: str, expected: Finish) -> None:
    server.answer = chat("a", finish=finish, usage=(5, 1))
    assert told(server, Asked(TURNS)) == ("a", Done(expected, 5, 1))


def test_every_stop_string_holds_whatever_the_server_does(server: OpenAIServer) -> None:
    server.answer = chat("one t", "wo th", "ree")
    assert told(server, short("x", 9, *"zyv", "q", "two")) == ("one ", Done(Finish.STOP))


def test_adapters_are_their_tenants_alone(server: OpenAIServer) -> None:
    upstream = of(server, adapters={("acme", "mail"): "acme-mail", ("other", "notes"): "n"})
    read(upstream.write("acme", "mail", "b", Asked(TURNS)))
    assert server.asked[0][2]["model"] == "acme-mail"
    for tenant, adapter in (("other", "mail"), ("acme", "notes"), ("acme", "acme-mail")):
        with pytest.raises(errors.NotFound):
            upstream.write(tenant, adapter, "b", Asked(TURNS))
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidInput),
        (413, errors.InvalidInput),
        (401, errors.NotReady),
        (404, errors.NotReady),
        (429, errors.Overloaded),
        (503, errors.Overloaded),
        (500, errors.Unavailable),
        (302, errors.Unavailable),
    ],
)
def test_refusals_have_their_kind_and_quote_nothing(
    server: OpenAIServer,
    status: int,
    kind: type[errors.SottovoceError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server.status = status
    with pytest.raises(kind) as caught:
        told(server, Asked(TURNS))
    (line,) = lines(caplog)
    assert str(status) in line
    assert urlsplit(server.url).netloc in line
    assert type(caught.value) is kind
    assert caught.value.fix
    assert "SECRET" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_server_that_is_not_there_is_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        upstream = Upstream(f"http://127.0.0.1:{taken.getsockname()[1]}", "big")
        with pytest.raises(errors.Unavailable, match="behind the cloud"):
            read(upstream.write("acme", "", "", Asked(TURNS)))
    (line,) = lines(caplog)
    assert "ConnectionRefusedError" in line


@pytest.mark.parametrize(
    "line",
    [
        b"data: {not json}\n\n",
        b"data: [1]\n\n",
        b'data: {"choices": [{"delta": 3}]}\n\n',
        event({"error": {"message": "SECRET"}}),
        b"data: " + b"x" * (1 << 20) + b"\n\n",
        b"",
    ],
)
def test_an_answer_that_breaks_off_is_unavailable_after_what_came(
    server: OpenAIServer, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    begun = chat("In ", finish=None)
    server.answer = lambda body: iter([*begun(body), line])
    pieces = iter(of(server).write("acme", "", "", Asked(TURNS)))
    assert next(pieces).text == "In "
    with pytest.raises(errors.Unavailable) as caught:
        next(pieces)
    assert "SECRET" not in repr(caught.value)
    (logged,) = lines(caplog)
    assert re.search(r"failed: \w+ at \S+:\d+$", logged)
    assert "SECRET" not in logged


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(server: OpenAIServer) -> None:
    go = threading.Event()

    def silent(_: dict[str, Any]) -> Iterator[bytes]:
        go.wait(60)
        yield b""

    server.answer = silent
    with pytest.raises(errors.Unavailable):
        told(server, Asked(TURNS), patience=0.2)
    go.set()


def test_one_that_drips_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai, "MOST_SECONDS", 0.2)
    with upstream_server.openai_server() as server:
        for status, piece in ((200, b" "), (100, b"HTTP/1.1 100 Continue\r\n\r\n")):
            server.gone.clear()
            server.status, server.answer = status, upstream_server.drip(piece)
            with pytest.raises(errors.Unavailable):
                read(Upstream(server.url, "big").write("acme", "", "", Asked(TURNS)))
            assert server.gone.wait(60)


def endless(_: dict[str, Any]) -> Iterator[bytes]:
    while True:
        yield event({"choices": [{"delta": {"content": "word "}}]})


def test_who_writes_without_an_end_is_cut_off(server: OpenAIServer) -> None:
    server.answer = endless
    found, done = told(server, Asked(TURNS, Sampling(max_tokens=10)))
    assert done.finish is Finish.LENGTH
    assert len(found) < 1_000
    assert server.hung_up.wait(60)


def test_a_cancelled_text_hangs_up_and_is_no_failure(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.answer = endless
    answer = of(server).write("acme", "", "", Asked(TURNS, Sampling(max_tokens=8_192)))
    pieces = iter(answer)
    next(pieces)
    threading.Timer(0.05, answer.cancel).start()
    with pytest.raises(CancelledError):
        list(pieces)
    assert server.hung_up.wait(60)
    assert not lines(caplog)


def test_one_cancelled_while_nothing_comes_is_not_waited_for(server: OpenAIServer) -> None:
    go = threading.Event()

    def silent(_: dict[str, Any]) -> Iterator[bytes]:
        yield b": wait\n"
        go.wait(60)

    server.answer = silent
    answer = of(server).write("acme", "", "", Asked(TURNS))
    threading.Timer(0.1, answer.cancel).start()
    with pytest.raises(CancelledError):
        list(answer)
    go.set()


def test_halves_of_a_character_do_not_pass(server: OpenAIServer) -> None:
    server.answer = chat("a\ud83d", "\ude00b", "\U0001f600")
    found, _ = told(server, Asked(TURNS))
    assert found.encode()
    assert found.startswith("a")
    assert found.endswith("b\U0001f600")


def test_one_that_is_cancelled_while_it_is_asked_sends_nothing_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Certificate.make().write(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(files[0]))
    monkeypatch.setattr(socket.socket, "shutdown", lambda *_: None)  # not yet
    with upstream_server.openai_server(files) as server:
        answer = Upstream(server.url, "big").write("acme", "", "", Asked(TURNS))
        request = HTTPConnection.request

        def cancelled(*args: Any) -> None:
            answer.cancel()
            request(*args)

        monkeypatch.setattr(HTTPConnection, "request", cancelled)
        with pytest.raises(CancelledError):
            list(answer)
        assert len(server.asked) == 1  # it came, and as TLS
