"""One thread answers many requests in batches."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.serving.batcher import FLOOR, Batcher, FairQueue
from sottovoce.cloud.serving.model_thread import passes
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


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("CUDA error: device-side assert triggered", True),
        ("CUDA error: an illegal memory access was encountered", True),
        ("CUDA error: out of memory", False),
        ("the text speaks of a device-side assert", False),
    ],
)
def test_a_lost_device_is_told_once(batcher: Batcher, message: str, lost: bool) -> None:
    told: list[bool] = []
    batcher.on_device_loss = lambda: told.append(True)

    def fail(requests: Sequence[int]) -> Iterator[tuple[int, int]]:
        raise RuntimeError(message)

    for _ in range(2):
        with pytest.raises(Unavailable if lost else RuntimeError):
            batcher.submit(fail, 0).result(60)
    assert told == [True] * lost
    assert batcher.device_lost == lost


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


def filled(**tenants: Sequence[float]) -> FairQueue[str]:
    queue: FairQueue[str] = FairQueue()
    for tenant, costs in tenants.items():
        for cost in costs:
            queue.push(tenant, tenant, cost)
    return queue


def test_equal_tenants_take_turns_however_much_each_sent() -> None:
    queue = filled(flood=[1] * 100, light=[1] * 3, other=[1] * 3)
    assert Counter(queue.pop() for _ in range(9)) == {"flood": 3, "light": 3, "other": 3}
    assert (len(queue), queue.waiting("flood"), queue.waiting("light")) == (97, 97, 0)


def test_long_requests_count_for_more() -> None:
    queue = filled(long=[40] * 50, short=[10] * 50)
    assert Counter(queue.pop() for _ in range(50)) == {"long": 10, "short": 40}


def test_having_been_away_earns_nothing_and_leaving_forgives_nothing() -> None:
    queue = filled(here=[1] * 40)
    for _ in range(20):
        queue.pop()
    for _ in range(20):
        queue.push("new", "new", 1)
    assert Counter(queue.pop() for _ in range(10)) == {"here": 5, "new": 5}
    # One who has had a large one and comes again at once is still behind.
    queue = filled(here=[1] * 40, large=[30])
    assert {queue.pop() for _ in range(2)} == {"here", "large"}
    queue.push("large", "large", 30)
    assert "large" not in [queue.pop() for _ in range(25)]


def test_an_empty_queue_says_so() -> None:
    queue: FairQueue[int] = FairQueue()
    for asked in (queue.pop, queue.next_cost):
        with pytest.raises(IndexError):
            asked()


def test_what_is_taken_out_is_not_served_and_costs_nothing() -> None:
    queue: FairQueue[str] = FairQueue()
    for tenant, item in (("a", "a0"), ("b", "b0"), ("a", "a1"), ("b", "b1")):
        queue.push(tenant, item, 10)
    for tenant, item in (("a", "a0"), ("a", "a0"), ("a", "b0"), ("c", "a1")):
        queue.discard(tenant, item)  # the last three do not wait there
    assert (len(queue), queue.waiting("a"), queue.waiting("b"), queue.waiting("c")) == (3, 1, 2, 0)
    assert [queue.pop() for _ in range(3)] == ["a1", "b0", "b1"]
    assert len(queue) == 0


def test_only_the_very_item_is_taken_out() -> None:
    queue: FairQueue[list[int]] = FairQueue()
    first, second = [1], [1]
    queue.push("a", first)
    queue.push("a", second, 2)
    queue.discard("a", second)
    assert queue.pop() is first


def test_a_tenant_whose_last_was_taken_out_is_not_asked() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.push("a", "item")
    queue.discard("a", "item")
    with pytest.raises(IndexError):
        queue.pop()


def test_nobody_is_owed_anything_once_all_is_done() -> None:
    for last in ("pop", "discard"):
        queue = filled(a=[5, 5], b=[1])
        assert [queue.pop() for _ in range(2)] == ["a", "b"]
        queue.pop() if last == "pop" else queue.discard("a", "a")
        queue.push("a", "a", 3)
        queue.push("b", "b", 3)
        assert [queue.pop(), queue.pop()] == ["a", "b"]  # a came first, and had five times as much
        queue.push("late", "late")
        queue.push("a", "a")
        assert [queue.pop(), queue.pop()] == ["late", "a"]


def test_an_item_is_one_of_work_where_nothing_is_said() -> None:
    queue: FairQueue[str] = FairQueue()
    for _ in range(4):
        queue.push("a", "a")
        queue.push("b", "b", 1)
    assert queue.next_cost() == 1
    assert "".join(queue.pop() for _ in range(8)) == "abababab"


def test_the_next_cost_is_that_of_the_next_item() -> None:
    queue = filled(a=[3, 1], b=[7, 1])
    assert queue.next_cost() == 3
    queue.pop()
    assert queue.next_cost() == 7


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), min_size=1))
def test_a_tenants_own_come_in_order_and_all_come(pushed: list[tuple[str, int]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, (tenant, cost) in enumerate(pushed):
        queue.push(tenant, (tenant, number), cost)
    popped = [queue.pop() for _ in pushed]
    assert sorted(number for _, number in popped) == list(range(len(pushed)))
    for tenant in "abc":
        own = [number for of, number in popped if of == tenant]
        assert own == sorted(own)
    assert len(queue) == 0


def test_rows_share_a_pass_as_far_as_padding_is_cheaper_than_another() -> None:
    # Two of 10 and one of 30 cost 90 together; apart 20 + 30, and one pass more.
    assert passes([(0, 0, 10), (0, 0, 30), (0, 0, 10)], 600, 39) == [[0, 2], [1]]
    assert passes([(0, 0, 10), (0, 0, 30), (0, 0, 10)], 600, 41) == [[0, 2, 1]]


def test_a_pass_may_be_full_and_no_fuller() -> None:
    assert passes([(0, 0, 10)] * 4, 40, 1_000) == [[0, 1, 2, 3]]
    assert sorted(map(len, passes([(0, 0, 10)] * 4, 39, 1_000))) == [1, 3]
    assert passes([(0, 0, 50), (0, 0, 50)], 40, 1_000) == [[0], [1]]


def test_fronts_are_padded_apart_from_texts() -> None:
    assert passes([(0, 20, 10), (0, 5, 30)], 100, 1_000) == [[1, 0]]  # 2 * (20 + 30)
    assert passes([(0, 20, 10), (0, 5, 30)], 99, 1_000) == [[0], [1]]


def test_models_do_not_share() -> None:
    assert passes([(0, 0, 10), (1, 0, 10), (0, 0, 10)], 600, 1_000) == [[0, 2], [1]]


def test_who_asked_first_is_run_first() -> None:
    shapes = [(0, 0, 300), (0, 0, 10), (0, 0, 200), (0, 0, 11)]
    assert passes(shapes, 300, 10) == [[0], [1, 3], [2]]
    assert passes([], 300, 10) == []


SHAPES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 5, 20]), st.integers(1, 300)))


@given(SHAPES, st.integers(1, 600))
def test_passes_are_bounded_and_leave_nothing_out(
    shapes: list[tuple[int, int, int]], tokens: int
) -> None:
    found = passes(shapes, tokens, 32)
    assert sorted(place for places in found for place in places) == list(range(len(shapes)))
    for places in found:
        models, fronts, lengths = zip(*(shapes[place] for place in places), strict=True)
        assert len(set(models)) == 1
        assert len(places) == 1 or len(places) * (max(fronts) + max(lengths)) <= tokens


def cost(found: list[list[int]], shapes: list[tuple[int, int, int]], overhead: int) -> int:
    padded = [
        len(places) * (max(shapes[p][1] for p in places) + max(shapes[p][2] for p in places))
        for places in found
    ]
    return sum(padded) + overhead * len(found)


@given(SHAPES.filter(lambda shapes: len(shapes) <= 7), st.integers(0, 400))
def test_no_other_cut_of_the_sorted_rows_is_cheaper(
    shapes: list[tuple[int, int, int]], overhead: int
) -> None:
    order = sorted(range(len(shapes)), key=shapes.__getitem__)
    found = cost(passes(shapes, 600, overhead), shapes, overhead)
    for cuts in itertools.product((False, True), repeat=max(0, len(shapes) - 1)):
        other: list[list[int]] = [[]]
        for place, cut_before in zip(order, (False, *cuts), strict=False):
            if cut_before:
                other.append([])
            other[-1].append(place)
        if all(
            len({shapes[p][0] for p in places}) == 1
            and (len(places) == 1 or cost([places], shapes, 0) <= 600)
            for places in other
        ):
            assert found <= cost(other, shapes, overhead)
