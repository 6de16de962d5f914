"""Heads of requests: bounded however they arrive, and never read in two ways."""

from __future__ import annotations

import json

import pytest

from sottovoce.core.http.messages import LARGEST_HEAD
from tests.support.echo import EchoingCloud
from tests.support.openai_endpoint import Door
from tests.support.raw_heads import AMBIGUOUS, ask, cut, head, padded

MODELS = "/v1/models"
CHAT = "/v1/chat/completions"
BODY = json.dumps({"messages": [{"role": "user", "content": "the lake"}]})
CHUNKS = f"{len(BODY):x}\r\n{BODY}\r\n0\r\n"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.parametrize("places", [(), (1,), (100, 200), (LARGEST_HEAD - 1,), (LARGEST_HEAD,)])
@pytest.mark.parametrize("over", [0, 1, 4_096, 40_000])
def test_a_head_is_bounded_however_it_arrives(
    at_cloud: tuple[Door, EchoingCloud], places: tuple[int, ...], over: int
) -> None:
    door, _ = at_cloud
    sent = padded(door, LARGEST_HEAD + over, path=MODELS)
    answered = ask(door, *cut(sent, places), patience=10 if over else 0.5)
    assert answered.statuses == [431 if over else 200]
    assert answered.closed == bool(over)


def test_a_second_head_is_bounded_behind_a_first(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    sent = head(door, path=MODELS) + padded(door, LARGEST_HEAD, path=MODELS)
    assert ask(door, sent, patience=0.5).statuses == [200, 200]
    sent = head(door, path=MODELS) + padded(door, LARGEST_HEAD + 1, path=MODELS)
    assert ask(door, sent).statuses == [200, 431]


def test_a_long_head_for_a_head_alone_is_answered_with_one(
    at_cloud: tuple[Door, EchoingCloud],
) -> None:
    door, _ = at_cloud
    answered = ask(door, padded(door, LARGEST_HEAD + 1, method="HEAD", path=MODELS))
    assert answered.statuses == [431]
    assert answered.raw.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("wrong", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused_and_ends_the_connection(
    at_cloud: tuple[Door, EchoingCloud], wrong: str
) -> None:
    """Behind it stands another request, which must not be read."""
    door, cloud = at_cloud
    before = len(cloud.asked)
    more, status = AMBIGUOUS[wrong]
    sent = head(door, more, method="POST", path=CHAT) + CHUNKS + "\r\n" + head(door, path=MODELS)
    answered = ask(door, sent)
    assert answered.statuses == [status]
    assert answered.closed
    assert len(cloud.asked) == before


@pytest.mark.parametrize("size", ["", "zz", "-1", "0x5", "+5", " 5", "0" * 30 + "5"])
def test_a_chunk_of_no_size_is_refused(at_cloud: tuple[Door, EchoingCloud], size: str) -> None:
    door, _ = at_cloud
    answered = ask(
        door, head(door, CHUNKED, method="POST", path=CHAT), f"{size}\r\nabcde\r\n0\r\n\r\n"
    )
    assert (answered.statuses, answered.closed) == ([400], True)


def test_a_chunk_longer_than_it_says_is_refused(at_cloud: tuple[Door, EchoingCloud]) -> None:
    door, _ = at_cloud
    answered = ask(door, head(door, CHUNKED, method="POST", path=CHAT), f"5\r\n{BODY}\r\n0\r\n\r\n")
    assert (answered.statuses, answered.closed) == ([400], True)


@pytest.mark.parametrize(("size", "status"), [(100, 200), (20_000, 431), (60_000, 431)])
def test_trailers_are_bounded_and_mean_nothing(
    at_cloud: tuple[Door, EchoingCloud], size: int, status: int
) -> None:
    door, _ = at_cloud
    trailers = f"Authorization: Bearer wrong\r\nContent-Length: 3\r\nA: {'b' * size}\r\n\r\n"
    sent = head(door, CHUNKED, method="POST", path=CHAT) + CHUNKS + trailers
    answered = ask(door, sent, patience=10 if status == 431 else 2)
    assert (answered.statuses, answered.closed) == ([status], status == 431)


@pytest.mark.parametrize(("http", "status"), [("1.0", 400), ("2.0", 505), ("0.9", 505)])
def test_another_http_is_refused(
    at_cloud: tuple[Door, EchoingCloud], http: str, status: int
) -> None:
    door, _ = at_cloud
    sent = head(door, CHUNKED, method="POST", path=CHAT, http=http) + CHUNKS + "\r\n"
    answered = ask(door, sent)
    assert (answered.statuses, answered.closed) == ([status], True)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("GET /v1/models HTTP/1.1", 400),
        ("GET /v1/models HTTP/1.0", 403),
        ("GET http://evil.example/v1/models HTTP/1.1\r\nHost: HOST", 404),
        ("OPTIONS * HTTP/1.1\r\nHost: HOST", 404),
        ("CONNECT evil.example:443 HTTP/1.1\r\nHost: HOST", 404),
        ("GET /v1/models HTTP/1.1\r\n folded: first\r\nHost: HOST", 400),
    ],
)
def test_a_request_for_another_place_is_refused(
    at_cloud: tuple[Door, EchoingCloud], sent: str, status: int
) -> None:
    door, _ = at_cloud
    sent = sent.replace("HOST", door.address)
    answered = ask(door, f"{sent}\r\nAuthorization: Bearer {door.key}\r\n\r\n")
    assert (answered.statuses, answered.closed) == ([status], True)


@pytest.mark.parametrize("form", ["same length twice", "folded", "bare line feeds"])
def test_what_the_standard_lets_a_server_read_is_read_in_one_way(
    at_cloud: tuple[Door, EchoingCloud], form: str
) -> None:
    """RFC 9110, section 8.6, and RFC 9112, sections 5.2 and 2.2."""
    door, _ = at_cloud
    length = f"Content-Length: {len(BODY)}"
    more = {
        "same length twice": f"{length}\r\n{length}",
        "folded": f"Content-Length:\r\n {len(BODY)}",
        "bare line feeds": length,
    }
    sent = head(door, more[form], method="POST", path=CHAT)
    if form == "bare line feeds":
        sent = sent.replace("\r\n", "\n")
    answered = ask(door, sent + BODY + head(door, path=MODELS), patience=1)
    assert answered.statuses == [200, 200]
