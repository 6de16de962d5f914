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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from sottovoce.cloud.metrics import Metrics
from sottovoce.core.errors import Overloaded, Unavailable

__all__ = ["BATCH", "Batcher", "FairQueue", "Step", "Stream", "passes"]

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


P = TypeVar("P")
Q = TypeVar("Q")

_END: Final = object()


@dataclass(frozen=True, slots=True)
class Step(Generic[Q, P]):
    """What one step of the model gives a row of a stream.

    Attributes:
        piece: for the reader; None where there is nothing to be read yet.
        then: the request of the row's next step; None after the last piece.
        cost: of that step, in tokens.
    """

    piece: P | None
    then: Q | None
    cost: int = 1


class Stream(Generic[P]):
    """Iterates over the pieces, in order, as they become known; for one thread.

    After the last piece it ends, or raises what ended it: what the work raised, Unavailable as the
    server stops, CancelledError after `cancel`.

    Args:
        size: pieces that may wait to be read.
        taken: called after each that is read.

    Attributes:
        ended: is done once nothing more will be found, however that came about. For what must be
            given back then; it is when the reader sees the end.
    """

    def __init__(self, size: int, taken: Callable[[], None]) -> None:
        self._size, self._taken = size, taken
        self._pieces: SimpleQueue[Any] = SimpleQueue()
        self._over = False  # the end was read
        self.ended: Future[None] = Future()

    def __iter__(self) -> Iterator[P]:
        return self

    def __next__(self) -> P:
        if not self._over:
            piece: P = self._pieces.get()
            if piece is not _END:
                self._taken()
                return piece
            self._over = True
        self.ended.result()
        raise StopIteration

    @property
    def full(self) -> bool:
        """Whether the reader must read before there is room for more."""
        return self._pieces.qsize() >= self._size

    def cancel(self) -> None:
        """Ends it: the reader wants no more."""
        if self.ended.cancel():
            self._pieces.put(_END)

    def put(self, piece: P) -> None:
        """Gives the reader a piece; for the model's thread."""
        self._pieces.put(piece)

    def end(self, error: Exception | None = None) -> None:
        """Ends it, with an error or well; one that has ended stays as it is."""
        with suppress(InvalidStateError):  # its reader may cancel at any moment
            if error is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(error)
            self._pieces.put(_END)


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

A = TypeVar("A")
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


def passes(shapes: Sequence[tuple[int, int, int]], tokens: int, overhead: int) -> list[list[int]]:
    """Which rows to run together, so that little is spent on padding and on starting passes.

    Of all ways to cut the rows in order of their lengths the cheapest is taken.

    Args:
        shapes: of every row (model, front, length): which model it needs, how many virtual tokens
            stand in front of it, how many tokens it has. Fronts and texts are padded apart.
        tokens: of one pass, padding included; a longer row goes alone.
        overhead: what a pass costs besides, in tokens.

    Returns:
        Places in ``shapes``, each once; all of a pass need the same model. Passes come in the order
        of their first rows, which a fair queue gave first because they are owed most.
    """
    order = sorted(range(len(shapes)), key=shapes.__getitem__)
    costs, starts = [0], [0]  # of the cheapest cut of the first n rows: its cost, its last pass
    for end in range(1, len(order) + 1):
        last_model, front, length = shapes[order[end - 1]]
        cheapest: tuple[int, int] | None = None
        for start in range(end - 1, -1, -1):
            model, *sizes = shapes[order[start]]
            front, length = max(front, sizes[0]), max(length, sizes[1])
            padded = (end - start) * (front + length)
            if cheapest is not None and (model != last_model or padded > tokens):
                break
            found = (costs[start] + padded + overhead, start)
            cheapest = found if cheapest is None else min(cheapest, found)
        assert cheapest is not None
        costs.append(cheapest[0])
        starts.append(cheapest[1])
    cut: list[list[int]] = []
    end = len(order)
    while end:
        cut.append(order[starts[end] : end])
        end = starts[end]
    return sorted(cut, key=min)
