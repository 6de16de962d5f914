"""Open calls are counted, in total and by tenant, and given back however they end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from sottovoce.cloud.api import authentication as module
from sottovoce.cloud.api.authentication import MOST, SECONDS, Admission, FailedAttemptLimiter
from sottovoce.core.errors import Overloaded, Unauthenticated, Unavailable
from tests.support.clock import Clock


def test_a_tenant_has_a_share_and_all_have_a_limit() -> None:
    admission = Admission(calls=4, per_tenant=2)
    for _ in range(2):
        with ExitStack() as calls:
            for tenant in ("a", "a", "b"):
                calls.enter_context(admission.admitted(tenant))
            with pytest.raises(Overloaded, match="this tenant"):
                calls.enter_context(admission.admitted("a"))
            with pytest.raises(Overloaded, match="too many calls"):
                calls.enter_context(admission.admitted("b"))
            calls.enter_context(admission.admitted("c"))
            with pytest.raises(Overloaded, match="too many calls"):
                calls.enter_context(admission.admitted("d"))


@pytest.mark.parametrize("crowd", [4, 30, 60])
def test_tenants_that_hold_all_they_can_leave_room_for_another(crowd: int) -> None:
    admission = Admission(calls=128, per_tenant=32)
    with ExitStack() as calls:
        for _ in range(32):  # in turns, and each as often as it may
            for number in range(crowd):
                with suppress(Overloaded):
                    calls.enter_context(admission.admitted(f"greedy-{number}"))
        calls.enter_context(admission.admitted("a"))


def test_a_call_that_fails_is_over() -> None:
    admission = Admission(calls=1, per_tenant=1)
    for _ in range(3):
        with pytest.raises(ValueError, match="its own"), admission.admitted("a"):
            raise ValueError("its own")


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
