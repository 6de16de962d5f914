"""The provider's page over HTTP: who may come in, and what who may not can take."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from sottovoce.cloud.page.endpoints import CALLS_AT_ONCE, page_server
from sottovoce.core.errors import ConfigError, InvalidInput, NotFound, Unavailable
from sottovoce.core.http.connection import HttpLimits
from sottovoce.core.http.messages import LARGEST_HEAD
from sottovoce.core.http.page import SESSION, PageServer
from sottovoce.core.http.server import MOST_CONNECTIONS
from tests.support.openai_endpoint import SECONDS, Door, entered
from tests.support.provider_page import served
from tests.support.waiting import until

LARGE = 32 << 20


class Blocking:
    """An endpoint that answers when it is let."""

    def __init__(self) -> None:
        self.within = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, asked: Mapping[str, str]) -> Any:
        self.within.release()
        assert self.go.wait(SECONDS)
        return dict(asked)


def failing(asked: Mapping[str, str]) -> Any:
    kinds = {"input": InvalidInput, "found": NotFound, "now": Unavailable}
    if asked.get("kind") in kinds:
        raise kinds[asked["kind"]]("so it is", fix="mend it")
    raise ValueError("Anna lives by the lake")


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    made = Blocking()
    yield made
    made.go.set()


@pytest.fixture
def server(blocking: Blocking) -> Iterator[PageServer]:
    told = {
        "/api/echo": lambda asked: dict(asked),
        "/api/blocking": blocking,
        "/api/failing": failing,
        "/api/large": lambda asked: "x" * LARGE,
    }
    with served(told) as server:
        yield server
        blocking.go.set()


@pytest.fixture
def door(server: PageServer) -> Door:
    return entered(server.link())


def connected(door: Door) -> socket.socket:
    return socket.create_connection(door.place, timeout=SECONDS)


def everything(line: socket.socket) -> bytes:
    return b"".join(iter(lambda: line.recv(1 << 16), b""))


def test_a_link_is_good_once_and_a_session_for_long(server: PageServer) -> None:
    parts = urlsplit(server.link())
    assert parts.hostname == "127.0.0.1"
    link = Door(parts.netloc, parts.fragment)
    assert link.ask("/api/echo").status == 401
    first, again = link.ask(SESSION, b"", "POST"), link.ask(SESSION, b"", "POST")
    assert (first.status, again.status) == (200, 401)
    assert "sotto-cloud ui" in again.error["message"]
    session = Door(parts.netloc, first.json["session"])
    assert [session.ask("/api/echo?a=b").json for _ in range(2)] == [{"a": "b"}] * 2
    assert session.ask(SESSION, b"", "POST").status == 401


@pytest.mark.parametrize("key", ["", "wrong"])
@pytest.mark.parametrize("path", ["/api/echo", "/api/none"])
def test_nothing_is_told_without_a_session(door: Door, key: str, path: str) -> None:
    answer = door.ask(path, Authorization=f"Bearer {key}")
    assert (answer.status, answer.error["code"]) == (401, "invalid_link")


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/echo"])
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "forbidden_host"),
        ({"Host": "127.0.0.1:1"}, "forbidden_host"),
        ({"Origin": "https://evil.example"}, "forbidden_origin"),
        ({"Origin": "null"}, "forbidden_origin"),
        ({"Sec_Fetch_Site": "same-site"}, "forbidden_origin"),  # another port of this machine
    ],
)
def test_other_pages_and_names_are_refused_even_with_a_session(
    door: Door, path: str, headers: dict[str, str], code: str
) -> None:
    answer = door.ask(path, **headers)
    assert (answer.status, answer.error["code"]) == (403, code)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_every_answer_forbids_what_the_page_does_not_need(door: Door) -> None:
    for path, kind in (("/", "text/html"), ("/look.css", "text/css"), ("/none", "application")):
        answer = door.ask(path)
        assert answer.headers["content-type"].startswith(kind)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; ")
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert "set-cookie" not in answer.headers


def test_its_files_name_nobody_else(door: Door) -> None:
    for path in ("/", "/look.css", "/parts.js", "/page.js"):
        text = door.ask(path, Authorization="").body.decode()
        assert "//" not in text.replace("// ", "")
        assert "innerHTML" not in text


def test_nothing_but_reading_is_asked_of_it(door: Door) -> None:
    assert door.ask("/api/none").status == 404
    for path in ("/", "/api/echo"):
        for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
            answer = door.ask(path, method=method)
            assert (answer.status, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize("length", ["Content-Length: 1000000", "Transfer-Encoding: chunked"])
def test_no_body_is_waited_for(door: Door, length: str) -> None:
    with connected(door) as line:
        head = f"GET / HTTP/1.1\r\nHost: {door.address}\r\n{length}\r\n\r\n"
        line.sendall(head.encode())
        assert everything(line).startswith(b"HTTP/1.1 413 ")


def test_a_head_is_bounded(door: Door) -> None:
    with connected(door) as line:
        line.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * 2 * LARGEST_HEAD)
        assert b" 431 " in everything(line).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1", b"PRI * HTTP/2"]
)
def test_what_is_no_request_is_refused(door: Door, garbage: bytes) -> None:
    with connected(door) as line:
        line.sendall(garbage + b"\r\n\r\n")
        assert everything(line).startswith(b"HTTP/1.1 4")


def test_who_does_not_end_its_head_is_not_waited_for(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpLimits, "head", 0.05)
    with connected(door) as line:
        line.sendall(b"GET / HTTP/1.1\r\n")
        assert everything(line) == b""


def test_who_does_not_take_its_answer_is_not_waited_for(
    server: PageServer, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpLimits, "taking", 0.05)
    monkeypatch.setattr(HttpLimits, "idle", 10 * SECONDS)
    with connected(door) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        head = f"GET /api/large HTTP/1.1\r\nHost: {door.address}\r\n"
        line.sendall(f"{head}Authorization: Bearer {door.key}\r\n\r\n".encode())
        assert line.recv(9) == b"HTTP/1.1 "
        until(lambda: not server.connections)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(HttpLimits, "taking", SECONDS)
            assert len(door.ask("/api/large").body) > LARGE


def test_who_holds_many_connections_keeps_nobody_out(
    server: PageServer, door: Door, blocking: Blocking
) -> None:
    with ExitStack() as stack, ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(door.ask, "/api/blocking")
        assert blocking.within.acquire(timeout=SECONDS)
        lines = [stack.enter_context(closing(connected(door))) for _ in range(2 * MOST_CONNECTIONS)]
        for line in lines[-MOST_CONNECTIONS:]:
            line.sendall(b"GET / HTTP/1.1\r\n")
        assert door.ask("/api/echo").status == 200
        assert server.connections <= MOST_CONNECTIONS
        assert lines[0].recv(1) == b"", "the oldest gave way"
        blocking.go.set()
        assert waiting.result().status == 200, "who has entered does not"


def test_so_many_are_worked_on_and_another_is_asked_to_come_again(
    door: Door, blocking: Blocking
) -> None:
    with ThreadPoolExecutor(CALLS_AT_ONCE) as threads:
        waiting = [threads.submit(door.ask, "/api/blocking") for _ in range(CALLS_AT_ONCE)]
        for _ in waiting:
            assert blocking.within.acquire(timeout=SECONDS)
        refused = door.ask("/api/echo")
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 0
        assert door.ask("/").status == 200, "files wait for nobody"
        blocking.go.set()
        assert [each.result().status for each in waiting] == CALLS_AT_ONCE * [200]
    assert door.ask("/api/echo").status == 200


def test_errors_are_told_and_a_fault_without_its_text(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    for kind, status in (("input", 400), ("found", 404), ("now", 503)):
        answer = door.ask(f"/api/failing?kind={kind}")
        assert (answer.status, answer.error["message"]) == (status, "so it is (mend it)")
    assert door.ask("/api/echo?" + "&".join(f"f{i}=1" for i in range(9))).status == 400
    with caplog.at_level(logging.ERROR):
        answer = door.ask("/api/failing")
    assert answer.status == 500
    assert "ValueError at " in caplog.text
    assert "Anna" not in caplog.text + answer.body.decode()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "cloud.example.org:80", "127.0.0.1:x"])
def test_it_stands_on_loopback_alone(address: str) -> None:
    with pytest.raises(ConfigError):
        page_server(address, {})


def test_a_place_that_is_taken_is_told(door: Door) -> None:
    with pytest.raises(ConfigError, match="--listen"):
        page_server(door.address, {})


def test_it_ends_with_what_it_was_answering(blocking: Blocking) -> None:
    with ThreadPoolExecutor(1) as thread:
        with served({"/api/blocking": blocking}) as server:
            door = entered(server.link())
            waiting = thread.submit(door.ask, "/api/blocking")
            assert blocking.within.acquire(timeout=SECONDS)
        with pytest.raises(ConnectionError):
            waiting.result()
        with pytest.raises(ConnectionRefusedError):
            door.ask("/")
        blocking.go.set()
