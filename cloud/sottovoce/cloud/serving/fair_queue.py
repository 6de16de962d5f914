"""A queue of many tenants that serves next whoever has been served least.

Why it is here: with one queue in order of arrival, a tenant who sends a thousand requests makes
everyone wait for them. Here each tenant has its own, and what counts is the work done for it
(start-time fair queueing, Goyal et al. 1996): a light tenant overtakes a flood, equal ones take
turns, and long requests count for more than short ones.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

__all__ = ["FairQueue"]

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items by tenant; not safe to share between threads without a lock."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[T, float]]] = {}
        self._served: dict[str, float] = {}
        self._now = 0.0
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def waiting(self, tenant: str) -> int:
        """Items of one tenant."""
        return len(self._waiting.get(tenant, ()))

    def push(self, tenant: str, item: T, cost: float = 1) -> None:
        """Adds an item that takes ``cost`` of work."""
        if tenant not in self._waiting:
            self._waiting[tenant] = deque()
            # Having been away earns nothing.
            self._served[tenant] = max(self._served.get(tenant, 0.0), self._now)
        self._waiting[tenant].append((item, cost))
        self._length += 1

    def next_cost(self) -> float:
        """Cost of the item `pop` would give.

        Raises:
            IndexError: the queue is empty.
        """
        return self._waiting[self._next()][0][1]

    def pop(self) -> T:
        """The first item of the tenant served least.

        Raises:
            IndexError: the queue is empty.
        """
        tenant = self._next()
        item, cost = self._waiting[tenant].popleft()
        self._length -= 1
        self._now = self._served[tenant]
        self._served[tenant] += cost
        self._forget_if_idle(tenant)
        return item

    def discard(self, tenant: str, item: T) -> None:
        """Takes an item out if it waits; nobody is charged for it."""
        own = self._waiting.get(tenant, deque())
        found = next((entry for entry in own if entry[0] is item), None)
        if found is not None:
            own.remove(found)
            self._length -= 1
            self._forget_if_idle(tenant)

    def _forget_if_idle(self, tenant: str) -> None:
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        if not self._waiting:  # nobody is owed anything
            self._served.clear()
            self._now = 0.0

    def _next(self) -> str:
        if not self._waiting:
            raise IndexError("the queue is empty")
        return min(self._waiting, key=self._served.__getitem__)
