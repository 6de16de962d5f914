"""Other people's servers: asked over TLS with their key, believed nothing, bounded in all."""

from __future__ import annotations

import itertools
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.live.testbed import free_address
from sottovoce.core.errors import (
    ConfigError,
    InvalidInput,
    NotFound,
    Overloaded,
    QuotaExceeded,
    SottovoceError,
    Unauthenticated,
    Unavailable,
)
from sottovoce.core.rpc import openai
from sottovoce.edge.client import generation as writers
from sottovoce.edge.client import openai_client
from sottovoce.edge.client.generation import OpenAIWriter
from sottovoce.edge.config import ChatConfig
from sottovoce.v1 import generation_pb2 as generation
from tests.support import upstream_server
from tests.support.certificates import Certificate
from tests.support.other_protocols import HTTP1, HTTP2, SSH, saying
from tests.support.upstream_server import Server, data, drip, echo, event

TEXT = "a text of some words, ünïcode and all 🌲"


@pytest.fixture
def server() -> Iterator[Server]:
    with upstream_server.openai_server() as running:
        yield running


def conversation(*texts: str, **fields: Any) -> generation.GenerateRequest:
    roles = itertools.cycle((generation.ROLE_USER, generation.ROLE_ASSISTANT))
    turns = [
        generation.ReleasedTurn(role=role, released_text=text)
        for role, text in zip(roles, texts, strict=False)
    ]
    return generation.GenerateRequest(
        conversation=generation.ReleasedConversation(turns=turns), **fields
    )


def written(
    config: ChatConfig | Server,
    request: generation.GenerateRequest | None = None,
    model: str = "",
    stoppable: Callable[[Callable[[], None]], None] = lambda stop: None,
) -> tuple[str, generation.GenerateDone]:
    config = config if isinstance(config, ChatConfig) else ChatConfig(upstream=config.url)
    pieces = OpenAIWriter(config).write(model, request or conversation(TEXT), stoppable)
    *deltas, last = pieces
    assert all(delta.delta_text for delta in deltas)
    assert last.WhichOneof("event") == "done"
    return "".join(delta.delta_text for delta in deltas), last.done


def test_a_conversation_is_asked_in_their_words(server: Server) -> None:
    sampling = generation.GenerateSampling(max_tokens=9, temperature=0.5, top_p=0.9, seed=0)
    asked = conversation("one", "two", TEXT, sampling=sampling, released_stops=["a", "\n"])
    asked.conversation.turns.add(role=generation.ROLE_TOOL, released_text="42")
    text, done = written(server, asked, "some/model:7b")
    assert text == "42"
    assert (done.finish_reason, done.prompt_tokens, done.completion_tokens) == (1, 5, 6)
    ((path, headers, body),) = server.asked
    assert path == "/v1/chat/completions"
    assert "Authorization" not in headers
    assert body == {
        "model": "some/model:7b",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": TEXT},
            {"role": "user", "content": "42"},
        ],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 0,
        "stop": ["a", "\n"],
    }


@pytest.mark.parametrize(
    ("scheme", "said", "named", "fix"),
    [
        ("http", SSH, "SSH", "chat.upstream"),
        ("https", SSH, "SSH", "chat.upstream"),
        ("https", HTTP1, "HTTP/1", "http://"),
        ("http", HTTP2, "HTTP/2", "cloud.address"),
        ("https", HTTP2, "HTTP/2", "cloud.address"),
    ],
)
def test_another_protocol_is_named(scheme: str, said: bytes, named: str, fix: str) -> None:
    with saying(said) as port, pytest.raises(ConfigError, match=named) as raised:
        written(ChatConfig(upstream=f"{scheme}://127.0.0.1:{port}/v1"))
    assert fix in raised.value.fix


def test_a_text_is_continued_and_defaults_are_theirs(server: Server) -> None:
    assert written(server, generation.GenerateRequest(released_text=TEXT))[0] == TEXT
    ((path, _, body),) = server.asked
    assert path == "/v1/completions"
    assert sorted(body) == ["model", "prompt", "stream", "stream_options"]


def test_tls_with_their_authority_and_key(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    certificate, key = Certificate.make().write(tmp_path)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("sk-of-theirs\n")
    with upstream_server.openai_server((certificate, key)) as server:
        trusting = ChatConfig(upstream=server.url, ca_file=certificate, key_file=token)
        assert written(trusting)[0] == TEXT
        assert server.asked[0][1]["Authorization"] == "Bearer sk-of-theirs"
        with pytest.raises(ConfigError, match="authority") as untrusted:
            written(ChatConfig(upstream=server.url, key_file=token))
        assert "chat.ca_file" in untrusted.value.fix
        with pytest.raises(ConfigError, match="TLS") as plain:  # no TLS where there is some
            written(ChatConfig(upstream=server.url.replace("https", "http")))
        assert "https://" in plain.value.fix
        assert len(server.asked) == 1
        with pytest.raises(ConfigError, match="cannot read"):
            written(ChatConfig(upstream=server.url, ca_file=tmp_path / "none"))
        token.chmod(0o644)
        with caplog.at_level(logging.WARNING):
            OpenAIWriter(trusting).check("")
        assert "chmod 600" in caplog.text


@pytest.mark.parametrize("held", [None, b"", b"\xff", b"two\nlines"])
def test_a_key_that_is_none(tmp_path: Path, held: bytes | None) -> None:
    file = tmp_path / "key"
    if held is not None:
        file.write_bytes(held)
    writer = OpenAIWriter(ChatConfig(upstream="http://127.0.0.1:1", key_file=file))
    with pytest.raises(ConfigError, match="key") as caught:
        writer.check("")
    assert caught.value.subject == "chat.key_file"


@pytest.mark.parametrize(
    "upstream",
    [
        *("http://example.org/v1", "http://10.0.0.1:80", "ftp://127.0.0.1", "127.0.0.1:8080"),
        *("https://", "https://user:word@example.org", "https://example.org/v1?key=x"),
        *("http://:word@127.0.0.1/v1", "https://@example.org/v1"),
        *("https://exämple.org", "https://example.org:port", "http://[::1"),
    ],
)
def test_addresses_that_are_refused(upstream: str) -> None:
    with pytest.raises(ConfigError, match=r"chat\.upstream"):
        OpenAIWriter(ChatConfig(upstream=upstream))


def test_a_server_that_does_not_run_is_told_in_our_words() -> None:
    with pytest.raises(Unavailable, match="refuses connections"):
        written(ChatConfig(upstream=f"http://{free_address()}/v1"))


def test_names_of_models() -> None:
    writer = OpenAIWriter(ChatConfig(upstream="https://example.org/v1"))
    assert writer.check("org/model-7b:latest@q4") == ""
    for name in ("a model", "x" * 129, "a\nb", "é"):
        with pytest.raises(InvalidInput, match="name of a model"):
            writer.check(name)


@pytest.mark.parametrize(
    ("status", "told", "kind", "code"),
    [
        (400, "context_length_exceeded", InvalidInput, "upstream_context_length_exceeded"),
        (400, "SECRET", InvalidInput, "upstream_invalid_request"),
        (401, "SECRET", Unauthenticated, "upstream_unauthenticated"),
        (404, "model_not_found", NotFound, "upstream_model_not_found"),
        (429, "SECRET", Overloaded, "upstream_rate_limited"),
        (429, "insufficient_quota", QuotaExceeded, "upstream_quota_exceeded"),
        (500, "SECRET", Unavailable, "upstream_unavailable"),
        (403, "SECRET", Unauthenticated, "upstream_forbidden"),
        (302, "SECRET", Unavailable, "upstream_unavailable"),
        (204, "SECRET", Unavailable, "upstream_unavailable"),
        (200, "rate_limit_exceeded", Overloaded, "upstream_rate_limited"),
        (200, "SECRET", Unavailable, "upstream_failed"),
    ],
)
def test_an_error_has_a_reason_code_and_none_of_the_servers_text(
    server: Server, status: int, told: str, kind: type[SottovoceError], code: str
) -> None:
    server.status = status
    server.headers |= {"Retry-After": "7", "Location": "http://127.0.0.1:1/"}
    error = {"error": {"message": "SECRET", "code": told, "type": ["SECRET"]}}
    body = data(error) if status == 200 else json.dumps(error).encode()
    server.answer = lambda _: [event("so "), body] if status == 200 else [body]
    with pytest.raises(kind) as caught:
        written(server)
    assert caught.value.metadata["code"] == code
    assert status == 200 or f"status {status}" in str(caught.value)
    assert caught.value.fix
    assert "SECRET" not in f"{caught.value} {caught.value.metadata}"
    if status == 429 and kind is Overloaded:
        assert caught.value.metadata["retry_after"] == "7"


def test_an_error_whose_body_does_not_come_is_told_all_the_same(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_client, "_ERROR_SECONDS", 0.1)
    may_end = threading.Event()
    server.status = 429
    server.answer = lambda body: (b"" for _ in [may_end.wait(20)])
    with pytest.raises(Overloaded):
        written(server)
    may_end.set()


def forever(*parts: bytes) -> Callable[[dict[str, Any]], Iterable[bytes]]:
    return lambda body: itertools.cycle(parts)


HOSTILE: dict[str, Callable[[dict[str, Any]], Iterable[bytes]]] = {
    "nothing": lambda body: [],
    "broken off": lambda body: [event("so ")],
    "no JSON": lambda body: [b"data: {nonsense\n\n"],
    "no event": lambda body: [data(["a", "list"])],
    "no UTF-8": lambda body: [b"data: \xff\xfe\n\n"],
    "deep JSON": lambda body: [b"data: " + b"[" * 100_000 + b"\n\n"],
    "choices that are none": lambda body: [data({"choices": 7})],
    "a line without end": forever(b"data: " + b"x" * 65_536),
    "comments without end": forever(b": " + b"x" * 65_536 + b"\n"),
    "a huge event": lambda body: [event("x" * (2 << 20))],
    "done at once": lambda body: [b"data: [DONE]\n\n"],
}


@pytest.mark.parametrize("how", HOSTILE)
def test_a_server_that_keeps_no_agreement_is_an_error(
    server: Server, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "MOST_BYTES", 4 << 20)
    server.answer = HOSTILE[how]
    with pytest.raises(Unavailable) as caught:
        written(server)
    assert "SECRET" not in str(caught.value)
    assert not re.search(r"Error|Exception|Read|Disconnected", str(caught.value))
    server.answer = echo
    assert written(server)[0] == TEXT


def test_one_that_does_not_stream_or_says_nothing_for_long_is_told(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.headers = {"Content-Type": "application/json"}
    with pytest.raises(Unavailable, match="not in pieces"):
        written(server)
    server.headers = {"Content-Type": "text/html"}
    with pytest.raises(Unavailable, match="web page"):
        written(server)
    server.headers = {"Content-Type": "text/event-stream"}
    monkeypatch.setattr(openai_client, "_SECONDS", 0.2)
    may_end = threading.Event()
    server.answer = lambda body: (b"" for _ in [may_end.wait(20)])
    with pytest.raises(Unavailable, match="in time"):
        written(server)
    may_end.set()
    monkeypatch.setattr(openai, "MOST_SECONDS", 0.0)
    with pytest.raises(Unavailable):
        written(server)


DRIPS = {"a line": (200, b" "), "headers": (100, b"HTTP/1.1 100 Continue\r\n\r\n")}


@pytest.mark.parametrize("where", DRIPS)
def test_one_that_drips_has_its_time(
    server: Server, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "MOST_SECONDS", 0.2)
    server.status, piece = DRIPS[where]
    server.answer = drip(piece)
    with pytest.raises(Unavailable):
        written(server)
    assert server.gone.wait(60)


def test_one_that_is_ended_while_it_is_asked_sends_nothing_in_the_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The thread that ends it goes no further than to the system's call: the request is still TLS.
    monkeypatch.setattr(socket.socket, "shutdown", lambda *_: None)
    with upstream_server.openai_server(Certificate.make().write(tmp_path)) as server:
        config = ChatConfig(upstream=server.url, ca_file=tmp_path / "certificate")
        assert written(config, stoppable=lambda stop: stop())[0] == TEXT


def test_odd_events_do_no_harm(server: Server) -> None:
    server.answer = lambda body: [
        b"event: x\r\nid: 1\r\n\r\n",
        data({"choices": [{"index": 1, "delta": {"content": "another choice"}}]}),
        data({"choices": ["no choice", {"delta": None}, {"delta": {"content": None}}]}),
        data({"choices": [{"delta": {"content": "half \ud83c"}}], "usage": {"prompt_tokens": -1}}),
        data({"choices": [{"delta": {"content": "!"}, "finish_reason": "length"}], "usage": 3}),
    ]
    text, done = written(server)
    assert text == "half \ufffd!"
    assert (done.finish_reason, done.prompt_tokens) == (generation.FINISH_REASON_LENGTH, 0)


def test_an_answer_is_ended_from_another_thread(server: Server) -> None:
    stops: list[Callable[[], None]] = []
    begun, going_on = threading.Event(), threading.Event()

    def slowly(body: dict[str, Any]) -> Iterator[bytes]:
        begun.set()
        yield event("so ")
        while not server.gone.is_set():
            going_on.wait(0.05)
            yield b": still here\n"

    server.answer = slowly
    failed: list[BaseException] = []

    def read() -> None:
        try:
            written(server, stoppable=stops.append)
        except Unavailable as error:
            failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert begun.wait(60)
    stops[0]()
    reader.join(60)
    assert not reader.is_alive()
    assert failed
    assert server.gone.wait(60)
    stops[0]()  # once more does no harm


def test_models_are_those_configured_and_listed_but_no_adapter_of_this_device(
    server: Server,
) -> None:
    server.models = {"data": [{"id": "b"}, {"id": "mine"}, {"id": 5}, "x", {"id": "no name"}]}
    config = ChatConfig(upstream=server.url, model="a")
    writer = OpenAIWriter(config, lambda name: name == "mine")
    assert writer.has("a")
    assert writer.models() == ["a", "b"]
    assert writer.has("b")
    assert not writer.has("mine")


@pytest.mark.parametrize("models", [None, [], {"data": 5}, {"error": "SECRET"}])
def test_a_server_that_lists_none_has_the_configured_model_alone(
    server: Server, models: object
) -> None:
    server.models = models
    assert OpenAIWriter(ChatConfig(upstream=server.url)).models() == []
    assert OpenAIWriter(ChatConfig(upstream=server.url, model="a")).models() == ["a"]


def test_a_list_that_drips_has_its_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_LISTING_SECONDS", 0.2)
    server.listing = drip(b" ")({})
    assert OpenAIWriter(ChatConfig(upstream=server.url)).models() == []
    assert server.gone.wait(60)


def test_a_server_that_is_not_there_lists_none() -> None:
    assert not OpenAIWriter(ChatConfig(upstream=f"http://{free_address()}")).has("a")


def test_pieces_of_calls_are_put_together_and_bounded(server: Server) -> None:
    def call(number: int, **function: str) -> bytes:
        calls = [{"index": number, "function": function}]
        return data({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})

    end = [event("", reason="tool_calls"), b"data: [DONE]\n\n"]
    parts = [call(0, name="a"), call(1, name="b"), call(0, arguments="{}"), *end]
    server.answer = lambda body: parts
    pieces = [*OpenAIWriter(ChatConfig(upstream=server.url)).write("", conversation(TEXT), print)]
    assert [(each.tool_call.released_name, each.tool_call.released_arguments) for each in pieces][
        :-1
    ] == [("a", "{}"), ("b", "")]
    assert pieces[-1].done.finish_reason == generation.FINISH_REASON_TOOL_CALLS
    for bad in (
        [call(number, name="a") for number in range(200)],
        [data({"choices": [{"index": 0, "delta": {"tool_calls": [5]}}]})],
        [data({"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"name": 5}}]}}]})],
    ):
        server.answer = lambda body, bad=bad: [*bad, *end]  # type: ignore[misc]
        with pytest.raises(Unavailable):
            [*OpenAIWriter(ChatConfig(upstream=server.url)).write("", conversation(TEXT), print)]


def test_calls_under_one_number_are_told_apart_by_their_ids(server: Server) -> None:
    def call(identity: str, name: str, arguments: str) -> bytes:
        calls = [{"index": 0, "id": identity, "function": {"name": name, "arguments": arguments}}]
        return data({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]})

    def calls(*parts: bytes) -> list[tuple[str, str]]:
        end = [event("", reason="tool_calls"), b"data: [DONE]\n\n"]
        server.answer = lambda body: [*parts, *end]
        writer = OpenAIWriter(ChatConfig(upstream=server.url))
        pieces = [*writer.write("", conversation(TEXT), print)][:-1]
        return [(p.tool_call.released_name, p.tool_call.released_arguments) for p in pieces]

    two = [call("x", "a", "{}"), call("y", "a", "[1"), call("", "", "]")]
    assert calls(*two) == [("a", "{}"), ("a", "[1]")]
    repeated = [call("x", "a", "{"), call("x", "a", "}")]
    assert calls(*repeated) == [("a", "{}")]
    late = [call("", "a", "{"), call("x", "", "}")]
    assert calls(*late) == [("a", "{}")]
    with pytest.raises(Unavailable):
        calls(*[call(str(number), "a", "{}") for number in range(200)])


@pytest.mark.parametrize("said", [[event("so ")], [event("so "), event("and so ")[:-5]]])
def test_an_answer_that_breaks_off_does_not_blame_the_address(
    server: Server, said: list[bytes]
) -> None:
    server.answer = lambda body: said
    with pytest.raises(Unavailable) as caught:
        written(server)
    assert caught.value.metadata["code"] == "upstream_protocol_error"
    assert "ask again" in caught.value.fix
    assert "chat.upstream" not in caught.value.fix


def test_a_temperature_of_nought_is_said(server: Server) -> None:
    written(server, conversation(TEXT, sampling=generation.GenerateSampling(temperature=0)))
    written(server, conversation(TEXT))
    (_, _, said), (_, _, unsaid) = server.asked
    assert said["temperature"] == 0
    assert "temperature" not in unsaid
