"""The OpenAI endpoint's bounds: access, sizes, and clients that leave."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from sottovoce.core.http.messages import LARGEST_HEAD, PIECE
from sottovoce.core.http.server import CALLS_AT_ONCE, LARGEST_BODY, MOST_CONNECTIONS, HttpLimits
from sottovoce.core.text.tagger import Tagger
from tests.support.echo import EchoingCloud, echoing_cloud
from tests.support.openai_endpoint import SECONDS, Door, opened_endpoint
from tests.support.waiting import until

PATH = "/v1/chat/completions"
ASKED = json.dumps({"messages": [{"role": "user", "content": "the pond"}], "stream": True}).encode()


def connected(door: Door) -> socket.socket:
    return socket.create_connection(door.place, timeout=SECONDS)


def head(door: Door, length: int | str, *more: str) -> bytes:
    size = "Transfer-Encoding: chunked" if isinstance(length, str) else f"Content-Length: {length}"
    lines = [f"POST {PATH} HTTP/1.1", f"Host: {door.address}", size, *more]
    return "\r\n".join([*lines, f"Authorization: Bearer {door.key}", "", ""]).encode()


def everything(line: socket.socket) -> bytes:
    return b"".join(iter(lambda: line.recv(1 << 16), b""))


def read_until(line: socket.socket, wanted: bytes) -> bytes:
    found = b""
    while wanted not in found:
        piece = line.recv(1 << 16)
        assert piece
        found += piece
    return found


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"authorization": ""}, 401, "invalid_api_key"),
        ({"authorization": "Bearer "}, 401, "invalid_api_key"),
        ({"authorization": "Bearer sk-sotto-no"}, 401, "invalid_api_key"),
        ({"authorization": "Basic KEY"}, 401, "invalid_api_key"),
        ({"origin": "http://127.0.0.1"}, 403, "forbidden_origin"),
        ({"origin": "null"}, 403, "forbidden_origin"),
        ({"sec_fetch_site": "cross-site"}, 403, "forbidden_origin"),
        ({"host": "evil.example"}, 403, "forbidden_host"),
        ({"host": "127.0.0.1.evil.example:80"}, 403, "forbidden_host"),
        ({"host": "localhost:" + "5" * 5_000}, 403, "forbidden_host"),
    ],
)
def test_who_has_no_key_or_is_a_web_page_stays_outside(
    at_cloud: tuple[Door, EchoingCloud], headers: dict[str, str], status: int, code: str
) -> None:
    door, cloud = at_cloud
    before = len(cloud.asked)
    key = {"Authorization": headers.pop("authorization", f"Bearer {door.key}")}
    key = {name: value.replace("KEY", door.key) for name, value in key.items()}
    answer = door.ask(PATH, ASKED, **key, **headers)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert len(cloud.asked) == before


def test_who_is_asked_for_a_key_is_told_what_for(at_cloud: tuple[Door, EchoingCloud]) -> None:
    """RFC 6750 section 3; where `Bearer` stands alone, URLSession on Linux ends the program."""
    door, _ = at_cloud
    asked = door.ask("/v1/models", Authorization="").headers["www-authenticate"]
    assert asked == 'Bearer realm="sottovoce"'


@pytest.mark.parametrize("host", ["localhost", "[::1]:1", "127.0.0.1", "LOCALHOST:99"])
def test_every_name_of_this_machine_will_do(at_cloud: tuple[Door, EchoingCloud], host: str) -> None:
    door, _ = at_cloud
    assert door.ask("/v1/models", host=host).status == 200


def test_node_is_no_web_page(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    sent = {"sec_fetch_mode": "cors", "accept_language": "*", "user_agent": "node"}
    assert door.ask("/v1/models", **sent).status == 200


def test_who_has_not_proved_who_it_is_is_answered_before_its_body_comes(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, _ = at_cloud
    with connected(door) as line:
        line.sendall(head(door, 1_000).replace(door.key.encode(), b"wrong"))
        assert everything(line).startswith(b"HTTP/1.1 401 ")


def test_heads_and_bodies_are_bounded(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    with connected(door) as line:
        line.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * 2 * LARGEST_HEAD)
        assert b" 431 " in everything(line).partition(b"\r\n")[0]
    with connected(door) as line:
        line.sendall(head(door, LARGEST_BODY + 1))
        assert everything(line).startswith(b"HTTP/1.1 413 ")
    with connected(door) as line:
        line.sendall(head(door, "chunked"))
        chunk = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
        for _ in range(5):
            line.sendall(chunk)
        assert everything(line).startswith(b"HTTP/1.1 413 ")


def test_a_body_may_be_announced_first(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    with connected(door) as line:
        line.sendall(head(door, len(ASKED), "Expect: 100-continue"))
        assert read_until(line, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        line.sendall(ASKED)
        assert b"[DONE]" in read_until(line, b"\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "garbage",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0"],
)
def test_what_is_no_request_is_refused(at_cloud: tuple[Door, EchoingCloud], garbage: bytes) -> None:
    door, _ = at_cloud
    with connected(door) as line:
        line.sendall(garbage + b"\r\n\r\n")
        assert everything(line).startswith((b"HTTP/1.1 4", b"HTTP/1.1 505"))


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [("/", "GET", 404), ("/v1/chat", "POST", 404), (PATH, "GET", 405), ("/v1/models", "POST", 405)],
)
def test_elsewhere_is_nothing(
    at_cloud: tuple[Door, EchoingCloud], path: str, method: str, status: int
) -> None:
    door, _ = at_cloud
    assert door.ask(path, method=method).status == status


def test_a_head_alone_is_answered_with_one(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    answer = door.ask("/v1/models", method="HEAD")
    assert (answer.status, answer.body) == (405, b"")


def test_a_body_may_come_byte_by_byte(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in ASKED)
    with connected(door) as line:
        line.sendall(head(door, "chunked") + chunks + b"0\r\n\r\n")
        assert b"[DONE]" in read_until(line, b"\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"5", b'{"n": NaN}', b'{"messages": "\\ud800"}', b"\xff", b"[" * 100_000],
)
def test_what_is_no_object_is_refused(at_cloud: tuple[Door, EchoingCloud], body: bytes) -> None:
    door, _ = at_cloud
    assert door.ask(PATH, body).status == 400


def test_a_connection_takes_one_request_after_another(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    with connected(door) as line:
        line.sendall(2 * (head(door, len(ASKED)) + ASKED))
        found = b""
        while found.count(b"[DONE]") < 2:
            found += line.recv(1 << 16)
        line.sendall(head(door, len(ASKED), "Connection: close") + ASKED)
        assert everything(line).count(b"[DONE]") == 1


@pytest.mark.parametrize("more", [b"", b"\r\n", b"GET /v1/models HTTP/1.1\r\n"])
def test_who_goes_away_takes_the_answer_along(
    at_cloud: tuple[Door, EchoingCloud], more: bytes
) -> None:
    door, cloud = at_cloud
    cloud.answer = lambda asked: itertools.chain(["so ", "far "], _never(cloud))
    with connected(door) as line:
        line.sendall(head(door, len(ASKED)) + ASKED)
        read_until(line, b"so ")
        line.sendall(more)
    assert cloud.cancelled.wait(SECONDS)


def test_who_sends_too_much_before_its_turn_is_hung_up_on(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, cloud = at_cloud
    cloud.answer = lambda asked: itertools.chain(["so ", "far "], _never(cloud))
    with connected(door) as line:
        line.sendall(head(door, len(ASKED)) + ASKED)
        read_until(line, b"so ")
        with suppress(OSError):
            line.sendall(b"x" * 3 * PIECE)
        assert cloud.cancelled.wait(SECONDS)


def _never(cloud: EchoingCloud) -> Iterator[str]:
    cloud.cancelled.wait(3 * SECONDS)  # longer than any test does: its own end sets it as well
    yield "end"


def test_who_takes_nothing_is_not_written_for_without_end(
    at_cloud: tuple[Door, EchoingCloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpLimits, "taking", 0.2)
    door, cloud = at_cloud
    cloud.answer = lambda asked: itertools.repeat("and so on " * 1_000, 1_000)
    with closing(socket.socket()) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.connect(door.place)
        line.sendall(head(door, len(ASKED)) + ASKED)
        assert cloud.cancelled.wait(SECONDS)


def test_who_says_nothing_is_hung_up_on(
    at_cloud: tuple[Door, EchoingCloud], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HttpLimits, "head", 0.05)
    monkeypatch.setattr(HttpLimits, "body", 0.05)
    door, _ = at_cloud
    with connected(door) as line:
        assert everything(line) == b""
    monkeypatch.setattr(HttpLimits, "head", 10.0)
    with connected(door) as line:
        line.sendall(head(door, 10) + b"12345")
        assert everything(line) == b""


def test_strangers_take_nobodys_place(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    with ExitStack() as lines:
        strangers = [lines.enter_context(connected(door)) for _ in range(MOST_CONNECTIONS)]
        for _ in range(3):
            assert door.ask("/v1/models").status == 200
        assert strangers[0].recv(1) == b""


def test_more_than_there_are_hands_for_are_asked_to_come_again(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, cloud = at_cloud
    go = threading.Event()
    waiting: list[socket.socket] = []

    def slowly(_: object) -> Iterator[str]:
        yield "so far "
        go.wait(SECONDS)

    cloud.answer = slowly
    with ExitStack() as lines:
        for _ in range(CALLS_AT_ONCE):
            line = lines.enter_context(connected(door))
            line.sendall(head(door, len(ASKED)) + ASKED)
            waiting.append(line)
        # Once alone could be because of the question before, whose connection is still ending.
        until(lambda: all(door.ask("/v1/models").status == 429 for _ in range(5)))
        refused = door.chat("the pond")
        go.set()
        for line in waiting:
            read_until(line, b"[DONE]")
    assert refused.status == 429
    assert refused.headers["retry-after"] == "2"
    assert door.ask("/v1/models").status == 200


def test_stopping_ends_what_is_being_answered(
    tmp_path: Path, small_bundle_folder: Path, lexicon_tagger: Tagger
) -> None:
    with echoing_cloud() as cloud:
        cloud.answer = lambda asked: itertools.chain(["so ", "far "], _never(cloud))
        with opened_endpoint(
            tmp_path, small_bundle_folder, lexicon_tagger, SOTTO_CLOUD_ADDRESS=cloud.address
        ) as door:
            line = connected(door)
            line.sendall(head(door, len(ASKED)) + ASKED)
            read_until(line, b"so ")
        with line:
            assert b"[DONE]" not in everything(line)
        assert cloud.cancelled.wait(SECONDS)
