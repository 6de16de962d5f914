"""One thread, many requests: together where they can be, each with an answer of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.serving.batcher import FLOOR, Batcher
from sottovoce.core.errors import InvalidInput, Overloaded, Unavailable
from tests.support.waiting import until


@pytest.fixture
def batcher() -> Iterator[Batcher]:
    batcher = Batcher(batch=4, waiting=16, patience=0.05)
    yield batcher
    batcher.close()


class Gate:
    """Work that takes as long as the test says."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()
        self.batches: list[list[int]] = []

    def __call__(self, requests: Sequence[int]) -> Iterator[tuple[int, int | Exception]]:
        self.entered.set()
        assert self.open.wait(60)
        self.batches.append(list(requests))
        yield from enumerate(-request for request in requests)


def test_what_arrives_meanwhile_is_answered_together(batcher: Batcher) -> None:
    gate = Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, number) for number in range(1, 10)]
    gate.open.set()
    assert [answer.result(60) for answer in answers] == [-number for number in range(10)]
    assert gate.batches == [[0], [1, 2, 3, 4], [5, 6, 7, 8], [9]]


def test_each_kind_of_work_gets_its_own_requests(batcher: Batcher) -> None:
    gate, other = Gate(), Gate()
    other.open.set()
    first = batcher.submit(gate, 0)
    assert gate.entered.wait(60)
    mixed = [batcher.submit((gate, other)[number % 2], number) for number in range(1, 5)]
    gate.open.set()
    assert [answer.result(60) for answer in (first, *mixed)] == [0, -1, -2, -3, -4]
    assert (gate.batches, other.batches) == ([[0], [2, 4]], [[1, 3]])


def test_a_full_queue_refuses_at_last_and_loses_nothing(batcher: Batcher) -> None:
    gate = Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, number) for number in range(1, 17)]  # four batches wait
    with pytest.raises(Overloaded, match="same message"):
        batcher.submit(gate, 17)
    gate.open.set()
    assert [answer.result(60) for answer in answers] == [-number for number in range(17)]


def test_one_failure_is_one_requests_own(batcher: Batcher) -> None:
    def halves(requests: Sequence[int]) -> Iterator[tuple[int, int | Exception]]:
        for place, n in enumerate(requests):
            yield place, n // 2 if n % 2 == 0 else InvalidInput("odd")

    answers = [batcher.submit(halves, number) for number in range(6)]
    for number, answer in enumerate(answers):
        if number % 2:
            with pytest.raises(InvalidInput, match="odd"):
                answer.result(60)
        else:
            assert answer.result(60) == number // 2


def test_an_answer_comes_when_it_is_known_and_a_breakdown_spoils_those_left(
    batcher: Batcher,
) -> None:
    gate, known = Gate(), threading.Event()

    def slow(requests: Sequence[int]) -> Iterator[tuple[int, int | Exception]]:
        yield 1, requests[1]
        assert known.wait(60)
        raise RuntimeError("out of memory")

    gate_answer = batcher.submit(gate, 0)
    assert gate.entered.wait(60)
    answers = [batcher.submit(slow, number) for number in range(3)]
    gate.open.set()
    assert answers[1].result(60) == 1  # while the others are still worked on
    known.set()
    for answer in (answers[0], answers[2]):
        with pytest.raises(RuntimeError, match="out of memory"):
            answer.result(60)
    assert gate_answer.result(60) == 0


def test_work_that_breaks_down_leaves_the_thread_running(batcher: Batcher) -> None:
    def broken(requests: Sequence[int]) -> Iterator[tuple[int, int | Exception]]:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        batcher.submit(broken, 1).result(60)
    assert batcher.submit(enumerate, 2).result(60) == 2


def test_a_flood_does_not_hold_up_another_tenant(batcher: Batcher) -> None:
    gate = Gate()
    answers = [batcher.submit(gate, 0, tenant="flood")]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, n, tenant="flood") for n in range(1, 16)]
    answers += [batcher.submit(gate, 100 + n, tenant="light") for n in range(2)]
    gate.open.set()
    for answer in answers:
        answer.result(60)
    assert {100, 101} <= set(gate.batches[1])  # the first batch after they came


def test_one_tenant_cannot_fill_the_queue_and_none_can_shut_another_out() -> None:
    batcher = Batcher(batch=4, waiting=20, per_tenant=12, patience=0.05)
    gate = Gate()
    answers = [batcher.submit(gate, 0, tenant="flood")]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, n, tenant="flood") for n in range(12)]
    with pytest.raises(Overloaded):
        batcher.submit(gate, 99, tenant="flood")
    answers += [batcher.submit(gate, n, tenant="other") for n in range(8)]
    with pytest.raises(Overloaded):  # twenty wait
        batcher.submit(gate, 99, tenant="other")
    answers += [batcher.submit(gate, n, tenant="light") for n in range(FLOOR)]
    with pytest.raises(Overloaded):
        batcher.submit(gate, 99, tenant="light")
    gate.open.set()
    assert len([answer.result(60) for answer in answers]) == 1 + 12 + 8 + FLOOR
    batcher.close()


def test_who_waits_for_room_gets_it() -> None:
    batcher = Batcher(batch=4, waiting=4, patience=30)
    gate = Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, n) for n in range(1, 5 + FLOOR - 4)]
    late = threading.Thread(target=lambda: answers.append(batcher.submit(gate, 50)))
    late.start()
    gate.open.set()
    late.join(60)
    assert answers[-1].result(60) == -50
    batcher.close()


def test_a_batch_is_bounded_by_its_cost() -> None:
    batcher = Batcher(batch=10, tokens=100)
    gate = Gate()
    answers = [batcher.submit(gate, 0, cost=1)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, cost, cost=cost) for cost in (60, 40, 50, 51, 400, 1, 2)]
    gate.open.set()
    for answer in answers:
        answer.result(60)
    assert gate.batches == [[0], [60, 40], [50], [51], [400], [1, 2]]
    batcher.close()


def test_what_is_bounded_where_nothing_is_said() -> None:
    batcher, gate = Batcher(patience=0.01), Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)

    def fill(tenant: str, most: int) -> None:
        answers.extend(batcher.submit(gate, n, tenant=tenant, cost=8) for n in range(most))
        with pytest.raises(Overloaded, match="too much to do"):
            batcher.submit(gate, most, tenant=tenant)

    for tenant in "abc":
        fill(tenant, 256)
    answers += [batcher.submit(gate, n, tenant="d", cost=8) for n in range(255)]
    answers.append(batcher.submit(gate, 0, tenant="e", cost=8))  # the 1,024th
    with pytest.raises(Overloaded):
        batcher.submit(gate, 255, tenant="d")
    fill("e", 7)
    fill("f", 8)
    gate.open.set()
    for answer in answers:
        answer.result(60)
    batcher.close()
    assert {len(batch) for batch in gate.batches[1:-1]} == {64}


def test_tokens_are_bounded_where_nothing_is_said() -> None:
    batcher, gate = Batcher(), Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, cost, cost=cost) for cost in (1_000, 24, 1_000, 25)]
    gate.open.set()
    for answer in answers:
        answer.result(60)
    batcher.close()
    assert gate.batches == [[0], [1_000, 24], [1_000], [25]]


def test_a_request_is_one_token_of_nobody_where_nothing_is_said() -> None:
    batcher, gate = Batcher(tokens=3, per_tenant=4, patience=0.01), Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, n, tenant="") for n in (1, 2)]
    answers += [batcher.submit(gate, n) for n in (3, 4)]
    with pytest.raises(Overloaded):
        batcher.submit(gate, 5)
    gate.open.set()
    for answer in answers:
        answer.result(60)
    batcher.close()
    assert gate.batches == [[0], [1, 2, 3], [4]]


def test_what_is_counted() -> None:
    metrics = Metrics()

    def figures(*names: str) -> list[float | None]:
        return [metrics.registry.get_sample_value(f"sottovoce_{name}") for name in names]

    began = time.perf_counter()
    batcher, gate = Batcher(batch=4, metrics=metrics), Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers += [batcher.submit(gate, n) for n in range(5)]
    assert figures("waiting_requests") == [5]
    gate.open.set()
    for answer in answers:
        answer.result(60)
    batcher.close()
    assert figures("waiting_requests", "request_seconds_count") == [0, 6]
    assert figures("batch_requests_count", "batch_requests_sum") == [3, 6]
    (seconds,) = figures("request_seconds_sum")
    assert seconds is not None
    assert 0 < seconds <= 6 * (time.perf_counter() - began)


def test_a_process_that_ends_does_not_wait_for_the_thread() -> None:
    batcher = Batcher()
    (thread,) = (t for t in threading.enumerate() if t is batcher._thread)
    assert (thread.daemon, thread.name) == (True, "model")
    batcher.close()
    assert not thread.is_alive()


def test_who_waits_for_room_is_told_at_once_when_the_batcher_closes() -> None:
    batcher, gate = Batcher(per_tenant=1, patience=600), Gate()
    answers = [batcher.submit(gate, 0)]
    assert gate.entered.wait(60)
    answers.append(batcher.submit(gate, 1))
    told: list[Unavailable] = []

    def ask() -> None:
        with pytest.raises(Unavailable, match="stopping") as caught:
            batcher.submit(gate, 2)
        told.append(caught.value)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: batcher._changed._waiters)  # type: ignore[attr-defined]
    closing = threading.Thread(target=batcher.close)
    closing.start()
    asking.join(60)
    assert [error.fix for error in told] == ["send the same message again later"]
    gate.open.set()
    closing.join(60)
    assert [answer.result(0) for answer in answers] == [0, -1]


def test_a_closed_batcher_says_so() -> None:
    batcher = Batcher()
    batcher.close()
    with pytest.raises(Unavailable, match="stopping"):
        batcher.submit(enumerate, 1)
