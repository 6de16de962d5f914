"""An address may be wrong a few times a minute, and who is right pays nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from sottovoce.cloud.api import admission as module
from sottovoce.cloud.api.admission import MOST, SECONDS, FailedAttemptLimiter
from sottovoce.core.errors import Overloaded, Unauthenticated, Unavailable
from tests.support.clock import Clock


def wrong(guesses: FailedAttemptLimiter, peer: str) -> None:
    with pytest.raises(Unauthenticated), guesses.one(peer):
        raise Unauthenticated("wrong")


def test_who_is_often_wrong_waits_and_others_do_not() -> None:
    clock = Clock()
    guesses = FailedAttemptLimiter(clock)
    for port in range(MOST):
        wrong(guesses, f"ipv4:192.0.2.1:{port}")
    with pytest.raises(Overloaded), guesses.one("ipv4:192.0.2.1:99"):
        raise AssertionError("it was asked")
    with guesses.one("ipv4:192.0.2.2:1"):
        pass
    clock.later = SECONDS
    wrong(guesses, "ipv4:192.0.2.1:1")


def test_right_answers_and_outages_count_for_nothing() -> None:
    guesses = FailedAttemptLimiter()
    for _ in range(3 * MOST):
        with guesses.one("unix:"):
            pass
        with pytest.raises(Unavailable), guesses.one("unix:"):
            raise Unavailable("the database is away")
    wrong(guesses, "unix:")


def test_guesses_in_progress_are_counted() -> None:
    guesses = FailedAttemptLimiter()

    def nested(depth: int) -> None:
        with guesses.one("unix:"):
            if depth > 1:
                nested(depth - 1)

    nested(MOST)
    with pytest.raises(Overloaded):
        nested(MOST + 1)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: wrong(guesses, "ipv4:192.0.2.9:1"), range(MOST)))
    with pytest.raises(Overloaded), guesses.one("ipv4:192.0.2.9:1"):
        pass


def test_so_many_hosts_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HOSTS", 10)
    guesses = FailedAttemptLimiter()
    for n in range(50):
        wrong(guesses, f"ipv4:192.0.2.{n}:1")
    assert len(guesses._counted) <= 11
