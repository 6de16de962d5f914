"""One thread, and work for it in batches.

Why it is here: all answers come from one model in memory, which one thread at a time may drive.
What has arrived by the time the thread is free is answered together, without waiting for more;
tenants share it fairly. Queues are bounded, in total and for each tenant: whoever asks when too
much is waiting is held back for a while and then told so, rather than kept.

An answer may come in pieces. Each step of such a stream goes through the queue like any request, so
that its row joins the others' between two steps and leaves them with its last one, what else was
asked meanwhile is answered in between, and its tenant pays for every step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.serving.fair_queue import FairQueue
from sottovoce.cloud.serving.stream import Step, Stream
from sottovoce.core.errors import Overloaded, Unavailable

__all__ = ["BATCH", "Batcher"]

BATCH: Final = 64
TOKENS: Final = 1_024
WAITING: Final = 1_024
PER_TENANT: Final = 256
FLOOR: Final = 8
STREAMS: Final = 64
STREAMS_PER_TENANT: Final = 16
PIECES: Final = 16
PATIENCE: Final = 10.0
"""Seconds a request waits for room in the queue."""

Q = TypeVar("Q")
A = TypeVar("A")
P = TypeVar("P")
Work = Callable[[Sequence[Any]], Iterable[tuple[int, Any]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    work: Work
    request: Any
    give: Callable[[Any], None]
    """Takes the answer, or the exception in its place."""
    since: float = field(default_factory=time.perf_counter)


@dataclass(slots=True, eq=False)
class _Row:
    """A stream that is open, in one of three states: its next step waits in the queue, it is being
    run, or it is held back until the reader has read."""

    tenant: str
    work: Work
    stream: Stream[Any]
    step: _Waiting | None = None  # in the queue or being run
    held_back: Step[Any, Any] | None = None


class Batcher:
    """Runs work in batches on a thread of its own; ``close`` ends it.

    Args:
        batch: requests answered at once, at most.
        tokens: cost answered at once, at most; a request that costs more goes alone. Bounds how
            long anyone waits for the batch before theirs.
        waiting: requests that may wait, of all tenants. A tenant with fewer than `FLOOR` is let in
            all the same, so that others cannot shut it out.
        per_tenant: requests of one tenant that may wait.
        streams: that may be open, of all tenants.
        streams_per_tenant: that may be open, of one tenant.
        pieces: of one stream that may wait to be read; its row pauses meanwhile.
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
        streams: int = STREAMS,
        streams_per_tenant: int = STREAMS_PER_TENANT,
        pieces: int = PIECES,
        patience: float = PATIENCE,
        metrics: Metrics | None = None,
    ) -> None:
        self._batch, self._tokens = batch, tokens
        self._most, self._per_tenant = waiting, per_tenant
        self._streams, self._streams_per_tenant = streams, streams_per_tenant
        self._pieces = pieces
        self._patience = patience
        self._metrics = metrics or Metrics()
        self._queue: FairQueue[_Waiting] = FairQueue()
        self._open: set[_Row] = set()
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
            self._wait_for(lambda: self._room(tenant))
            self._push(tenant, _Waiting(work, request, partial(_resolve, answer)), cost)
        return answer

    def stream(
        self,
        work: Callable[[Sequence[Q]], Iterable[tuple[int, Step[Q, P] | Exception]]],
        request: Q,
        *,
        tenant: str = "",
        cost: int = 1,
    ) -> Stream[P]:
        """Queues ``request`` for an answer in pieces, each from a step of its own.

        Args:
            work: makes one step of every row it is given, as that of `submit` makes answers.
            request: of the first step; each step says what the next one is asked.
            tenant: whose it is.
            cost: the first step's share of a batch, in tokens.

        Raises:
            Overloaded: as many as may be open stayed open. Unavailable: the batcher is closed.
        """

        row = _Row(tenant, work, Stream(self._pieces, lambda: self._resume(row)))
        with self._changed:
            self._wait_for(lambda: self._slot(tenant))
            self._open.add(row)
            self._push_step(row, request, cost)
        row.stream.ended.add_done_callback(lambda _: self._leave(row))
        return row.stream

    def close(self) -> None:
        """Ends streams, answers what else is queued, then ends."""
        with self._changed:
            self._closing = True
            rows = list(self._open)
            self._changed.notify_all()
        for row in rows:
            row.stream.end(_stopping())
        self._thread.join()

    def _wait_for(self, room: Callable[[], bool]) -> None:
        if not self._changed.wait_for(lambda: self._closing or room(), self._patience):
            raise Overloaded(
                "the cloud has too much to do", fix="send the same message again later"
            )
        if self._closing:
            raise _stopping()

    def _room(self, tenant: str) -> bool:
        own = self._queue.waiting(tenant)
        return own < self._per_tenant and (len(self._queue) < self._most or own < FLOOR)

    def _slot(self, tenant: str) -> bool:
        own = sum(row.tenant == tenant for row in self._open)
        return len(self._open) < self._streams and own < self._streams_per_tenant

    def _push(self, tenant: str, waiting: _Waiting, cost: int) -> None:
        self._queue.push(tenant, waiting, cost)
        self._changed.notify_all()

    def _push_step(self, row: _Row, request: Any, cost: int) -> None:
        if row in self._open:  # not if it was cancelled meanwhile
            row.step = _Waiting(row.work, request, partial(self._stepped, row))
            self._push(row.tenant, row.step, cost)

    def _stepped(self, row: _Row, found: Step[Any, Any] | Exception) -> None:
        if isinstance(found, Exception):
            row.stream.end(found)
            return
        if found.piece is not None:
            row.stream.put(found.piece)
        if found.then is None:
            row.stream.end()
            return
        with self._changed:
            if row.stream.full:
                row.held_back = found
            else:
                self._push_step(row, found.then, found.cost)

    def _resume(self, row: _Row) -> None:
        with self._changed:
            step, row.held_back = row.held_back, None
            if step is not None:
                self._push_step(row, step.then, step.cost)

    def _leave(self, row: _Row) -> None:
        with self._changed:
            self._open.remove(row)
            if row.step is not None:
                self._queue.discard(row.tenant, row.step)
            row.step = row.held_back = None  # whoever still reads keeps the pieces alone
            self._changed.notify_all()

    def _run(self) -> None:
        while batch := self._take():
            self._metrics.batch.observe(len(batch))
            by_work: dict[Work, list[_Waiting]] = {}
            for waiting in batch:
                by_work.setdefault(waiting.work, []).append(waiting)
            for work, those in by_work.items():
                self._answer(work, those)

    def _answer(self, work: Work, those: Sequence[_Waiting]) -> None:
        left = dict(enumerate(those))
        try:
            for place, answer in work([waiting.request for waiting in those]):
                self._give(left.pop(place), answer)
        except Exception as error:
            for waiting in left.values():
                self._give(waiting, error)

    def _give(self, waiting: _Waiting, answer: Any) -> None:
        self._metrics.latency.observe(time.perf_counter() - waiting.since)
        waiting.give(answer)

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


def _resolve(answer: Future[Any], found: Any) -> None:
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _stopping() -> Unavailable:
    return Unavailable("the cloud is stopping", fix="send the same message again later")
