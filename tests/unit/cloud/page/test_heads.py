"""Heads of requests to the provider's page: bounded however they arrive, never read in two ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sottovoce.core.http.messages import LARGEST_HEAD
from tests.support.openai_endpoint import Door, entered
from tests.support.provider_page import served
from tests.support.raw_heads import AMBIGUOUS, ask, cut, head, padded


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    with served({}) as server:
        yield entered(server.link())


@pytest.mark.parametrize("places", [(), (1,), (LARGEST_HEAD - 1,), (LARGEST_HEAD,)])
@pytest.mark.parametrize("over", [0, 1, 40_000])
def test_a_head_is_bounded_however_it_arrives(
    door: Door, places: tuple[int, ...], over: int
) -> None:
    sent = cut(padded(door, LARGEST_HEAD + over), places)
    answered = ask(door, *sent, patience=10 if over else 0.5)
    assert answered.statuses == [431 if over else 200]


@pytest.mark.parametrize("wrong", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(door: Door, wrong: str) -> None:
    more, status = AMBIGUOUS[wrong]
    answered = ask(door, head(door, more, method="POST") + "3\r\nabc\r\n0\r\n\r\n" + head(door))
    assert (answered.statuses, answered.closed) == ([status], True)


@pytest.mark.parametrize("http", ["2.0", "0.9"])
def test_another_http_is_refused(door: Door, http: str) -> None:
    assert ask(door, head(door, http=http)).statuses == [505]
