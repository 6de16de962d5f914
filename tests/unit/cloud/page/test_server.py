"""The provider's own part of the page; `tests/unit/edge/http` tests the shared server."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sottovoce.cloud.page import CALLS_AT_ONCE, page_server
from sottovoce.core.errors import ConfigError, InvalidInput, NotFound, Unavailable
from sottovoce.core.http.page import PageServer
from tests.support.openai_endpoint import SECONDS, Door, entered
from tests.support.provider_page import served


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
    }
    with served(told) as server:
        yield server
        blocking.go.set()


@pytest.fixture
def door(server: PageServer) -> Door:
    return entered(server.link())


@pytest.mark.parametrize("key", ["", "wrong"])
@pytest.mark.parametrize("path", ["/api/echo", "/api/none"])
def test_nothing_is_told_without_a_session(door: Door, key: str, path: str) -> None:
    answer = door.ask(path, Authorization=f"Bearer {key}")
    assert (answer.status, answer.error["code"]) == (401, "invalid_link")


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
