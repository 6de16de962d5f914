"""One thread, many requests: together where they can be, each with an answer of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from sottovoce.cloud.batching import Batcher
from sottovoce.edge.errors import InvalidInput, Overloaded


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    batcher = Batcher(batch=4, patience=0.05)
    yield batcher
    batcher.close()


class Gate:
    """Work that takes as long as the test says."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, requests: Sequence[int]) -> list[int | Exception]:
        self.entered.set()
        assert self.open.wait(10)
        self.batches.append(list(requests))
        return [-request for request in requests]


def test_what_arrives_meanwhile_is_answered_together(batcher: Batcher) -> None:
    gate = Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(10)
    answers += [batcher.submit(gate, number) for number in range(1, 10)]
    gate.open.set()
    assert [answer.result(10) for answer in answers] == [-number for number in range(10)]
    assert gate.batches == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]


def test_each_kind_of_work_gets_its_own_requests(batcher: Batcher) -> None:
    gate, other = Gate(), Gate()
    other.open.set()
    first = batcher.submit(gate, 0)
    assert gate.entered.wait(10)
    mixed = [batcher.submit((gate, other)[number % 2], number) for number in range(1, 5)]
    gate.open.set()
    assert [answer.result(10) for answer in (first, *mixed)] == [0, -1, -2, -3, -4]
    assert (gate.batches, other.batches) == ([[0], [2, 4]], [[1, 3]])


def test_a_full_queue_refuses_at_last_and_loses_nothing(batcher: Batcher) -> None:
    gate = Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(10)
    answers += [batcher.submit(gate, number) for number in range(1, 17)]  # four batches wait
    with pytest.raises(Overloaded, match="same message"):
        batcher.submit(gate, 17)
    gate.open.set()
    assert [answer.result(10) for answer in answers] == [-number for number in range(17)]


def test_one_failure_is_one_requests_own(batcher: Batcher) -> None:
    def halves(requests: Sequence[int]) -> list[int | Exception]:
        return [n // 2 if n % 2 == 0 else InvalidInput("odd") for n in requests]

    answers = [batcher.submit(halves, number) for number in range(6)]
    for number, answer in enumerate(answers):
        if number % 2:
            with pytest.raises(InvalidInput, match="odd"):
                answer.result(10)
        else:
            assert answer.result(10) == number // 2


def test_work_that_breaks_down_leaves_the_thread_running(batcher: Batcher) -> None:
    def broken(requests: Sequence[int]) -> list[int | Exception]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        batcher.submit(broken, 1).result(10)
    assert batcher.submit(list, 2).result(10) == 2
