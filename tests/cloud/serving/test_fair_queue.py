"""Turns by work done: nobody gains by sending more, by sending long ones, or by staying away."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.cloud.serving.fair_queue import FairQueue


def filled(**tenants: list[int]) -> FairQueue[str]:
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
