"""One thread, and work for it in batches.

Why it is here: all answers come from one model in memory, which one thread at a time may drive.
What has arrived by the time the thread is free is answered together, without waiting for more;
tenants share it fairly. Queues are bounded, in total and for each tenant: whoever asks when
too much is waiting is held back for a while and then told so, rather than kept.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.serving.fair_queue import FairQueue
from sottovoce.core.errors import Overloaded, Unavailable

__all__ = ["BATCH", "Batcher"]

BATCH: Final = 64
TOKENS: Final = 1_024
WAITING: Final = 1_024
PER_TENANT: Final = 256
FLOOR: Final = 8
PATIENCE: Final = 10.0
"""Seconds a request waits for room in the queue."""

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _Waiting:
    work: Callable[[Sequence[Any]], Iterable[tuple[int, Any]]]
    request: Any
    answer: Future[Any]
    since: float = field(default_factory=time.perf_counter)


class Batcher:
    """Runs work in batches on a thread of its own; ``close`` ends it.

    Args:
        batch: requests answered at once, at most.
        tokens: cost answered at once, at most; a request that costs more goes alone. Bounds how
            long anyone waits for the batch before theirs.
        waiting: requests that may wait, of all tenants. A tenant with fewer than `FLOOR` is let in
            all the same, so that others cannot shut it out.
        per_tenant: requests of one tenant that may wait.
        patience: seconds to wait for room before a request is refused.
        metrics: what is counted.
    """

    def __init__(
        self,
        *,
        batch: int = BATCH,
        tokens: int = TOKENS,
        waiting: int = WAITING,
        per_tenant: int = PER_TENANT,
        patience: float = PATIENCE,
        metrics: Metrics | None = None,
    ) -> None:
        self._batch, self._tokens = batch, tokens
        self._most, self._per_tenant = waiting, per_tenant
        self._patience = patience
        self._metrics = metrics or Metrics()
        self._queue: FairQueue[_Waiting] = FairQueue()
        self._changed = threading.Condition()
        self._closing = False
        self._metrics.waiting.set_function(lambda: len(self._queue))
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def submit(
        self,
        work: Callable[[Sequence[Q]], Iterable[tuple[int, A | Exception]]],
        request: Q,
        *,
        tenant: str = "",
        cost: int = 1,
    ) -> Future[A]:
        """Queues ``request`` for ``work``, which is given all its requests of a batch at once.

        Args:
            work: answers requests, each once, by its place and as soon as it is known; an exception
                in place of an answer stands for that one alone, one that is raised for all left.
            request: what to answer.
            tenant: whose it is.
            cost: its share of a batch, in tokens.

        Raises:
            Overloaded: the queue stayed full. Unavailable: the batcher is closed.
        """
        answer: Future[A] = Future()
        with self._changed:
            if not self._changed.wait_for(lambda: self._room(tenant), self._patience):
                raise Overloaded(
                    "the cloud has too much to do", fix="send the same message again later"
                )
            if self._closing:
                raise Unavailable("the cloud is stopping", fix="send the same message again later")
            self._queue.push(tenant, _Waiting(work, request, answer), cost)
            self._changed.notify_all()
        return answer

    def close(self) -> None:
        """Answers what is queued, then ends."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _room(self, tenant: str) -> bool:
        own = self._queue.waiting(tenant)
        free = len(self._queue) < self._most or own < FLOOR
        return self._closing or (own < self._per_tenant and free)

    def _run(self) -> None:
        while batch := self._take():
            self._metrics.batch.observe(len(batch))
            by_work: dict[Any, list[_Waiting]] = {}
            for waiting in batch:
                by_work.setdefault(waiting.work, []).append(waiting)
            for work, those in by_work.items():
                self._answer(work, those)

    def _answer(
        self,
        work: Callable[[Sequence[Any]], Iterable[tuple[int, Any]]],
        those: Sequence[_Waiting],
    ) -> None:
        left = dict(enumerate(those))
        try:
            for place, answer in work([waiting.request for waiting in those]):
                self._give(left.pop(place), answer)
        except Exception as error:
            for waiting in left.values():
                self._give(waiting, error)

    def _give(self, waiting: _Waiting, answer: Any) -> None:
        self._metrics.latency.observe(time.perf_counter() - waiting.since)
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)

    def _take(self) -> list[_Waiting]:
        """The next batch, as soon as there is one; empty at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or len(self._queue))
            batch: list[_Waiting] = []
            cost = 0.0
            while len(self._queue) and len(batch) < self._batch:
                cost += self._queue.next_cost()
                if batch and cost > self._tokens:
                    break
                batch.append(self._queue.pop())
            self._changed.notify_all()
        return batch
