"""Memory is promised once, shared out, and given back."""

from __future__ import annotations

import threading

import pytest

from sottovoce.cloud.serving.generator import Reservations
from sottovoce.core.errors import Overloaded, QuotaExceeded


def test_what_is_given_back_can_be_had_again() -> None:
    held = Reservations(100, patience=0)
    give_back = held.reserve("a", 50)
    other = held.reserve("b", 50)
    assert held.held == 100
    with pytest.raises(Overloaded):
        held.reserve("c", 1)
    give_back()
    held.reserve("c", 50)()
    other()
    assert held.held == 0


def test_a_tenant_has_half_at_most() -> None:
    held = Reservations(100, patience=0)
    held.reserve("a", 30)
    with pytest.raises(Overloaded):
        held.reserve("a", 21)
    held.reserve("a", 20)
    held.reserve("b", 50)


def test_what_can_never_be_had_is_refused_for_good() -> None:
    with pytest.raises(QuotaExceeded, match="memory") as caught:
        Reservations(100, patience=60).reserve("a", 51)
    assert "--generation-memory" in caught.value.fix


def test_one_waits_for_others_to_be_done() -> None:
    held = Reservations(100, patience=60)
    give_back = held.reserve("a", 50)
    held.reserve("b", 40)
    waiting = threading.Timer(0.1, give_back)
    waiting.start()
    held.reserve("c", 50)
    waiting.join()
    assert held.held == 90
