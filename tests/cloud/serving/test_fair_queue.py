"""Turns by work done: nobody gains by sending more, by sending long ones, or by staying away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.cloud.serving.batcher import FairQueue


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


def test_who_comes_late_begins_where_the_others_are() -> None:
    queue = filled(here=[0.25] * 8)
    for _ in range(3):
        queue.pop()
    for _ in range(4):
        queue.push("late", "late", 0.25)
    assert Counter(queue.pop() for _ in range(4)) == {"here": 2, "late": 2}


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
