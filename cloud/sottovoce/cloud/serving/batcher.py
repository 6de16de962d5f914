"""Run one thread with batches of work for many tenants.

All answers come from one model in memory, and only one thread at a time may drive it. When the
thread is free, it answers all waiting requests together, without waiting for more. Tenants get fair
shares. Queues are bounded, in total and for each tenant. A caller waits for room in a full queue
for a while and then gets an error.

An answer may arrive in pieces, as a stream. Each step of a stream goes through the queue like any
request. So its row joins other rows between two steps and leaves after its last step. Other
requests are answered in between, and the tenant pays for every step.

Predictor, embedder and generator are peers on the model thread. Each submits work, and gets the
waiting requests of all tenants together. Predictor and embedder use the same encoder. The generator
brings a separate decoder and shares the device.
"""

from __future__ import annotations

import logging
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

T = TypeVar("T")
_log = logging.getLogger(__name__)


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
        """Return the number of a tenant's items."""
        return len(self._waiting.get(tenant, ()))

    def push(self, tenant: str, item: T, cost: float = 1) -> None:
        """Add an item with ``cost`` units of work."""
        if tenant not in self._waiting:
            self._waiting[tenant] = deque()
            # A tenant earns no credit while it has no items.
            self._served[tenant] = max(self._served.get(tenant, 0.0), self._now)
        self._waiting[tenant].append((item, cost))
        self._length += 1

    def next_cost(self) -> float:
        """Return the cost of the item that `pop` would return.

        Raises:
            IndexError: the queue is empty.
        """
        return self._waiting[self._next()][0][1]

    def pop(self) -> T:
        """Remove and return the first item of the tenant with the least service.

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
        """Remove a waiting item at no charge."""
        own = self._waiting.get(tenant, deque())
        found = next((entry for entry in own if entry[0] is item), None)
        if found is not None:
            own.remove(found)
            self._length -= 1
            self._forget_if_idle(tenant)

    def _forget_if_idle(self, tenant: str) -> None:
        if not self._waiting[tenant]:
            del self._waiting[tenant]
        if not self._waiting:  # no tenant is owed work
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
    """The result of one step of the model for a row of a stream.

    Attributes:
        piece: for the reader; None if there is nothing to read yet.
        then: the request of the row's next step; None after the last piece.
        cost: of the next step, in tokens.
    """

    piece: P | None
    then: Q | None
    cost: int = 1


class Stream(Generic[P]):
    """Iterates over the pieces, in order, as they arrive; for one thread.

    After the last piece the stream ends, or raises the error that ended it: an error of the work,
    Unavailable if the server stops, or CancelledError after `cancel`.

    Args:
        size: pieces that may wait to be read.
        taken: called after each read.

    Attributes:
        ended: done once no more pieces will come, for any reason. Use it to release resources
            after the reader sees the end.
    """

    def __init__(self, size: int, taken: Callable[[], None]) -> None:
        self._size, self._taken = size, taken
        self._pieces: SimpleQueue[Any] = SimpleQueue()
        self._over = False  # the reader has seen the end
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
        """Whether the reader must read to make room."""
        return self._pieces.qsize() >= self._size

    def cancel(self) -> None:
        """End the stream on behalf of its reader."""
        if self.ended.cancel():
            self._pieces.put(_END)

    def put(self, piece: P) -> None:
        """Add a piece; for the model's thread."""
        self._pieces.put(piece)

    def end(self, error: Exception | None = None) -> None:
        """End the stream, with or without an error; an ended stream stays unchanged."""
        with suppress(InvalidStateError):  # the reader may cancel at any moment
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
"""Seconds that a request waits for room in the queue."""

A = TypeVar("A")
Work = Callable[[Sequence[Any]], Iterable[tuple[int, Any]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    work: Work
    request: Any
    give: Callable[[Any], None]
    """Receives the answer, or an exception."""
    since: float = field(default_factory=time.perf_counter)


@dataclass(slots=True, eq=False)
class _Row:
    """An open stream in one of three states.

    Its next step waits in the queue, or runs, or is held back until the reader has read.
    """

    tenant: str
    work: Work
    stream: Stream[Any]
    step: _Waiting | None = None  # in the queue or running
    held_back: Step[Any, Any] | None = None


class Batcher:
    """Runs work in batches on its thread; ``close`` ends it.

    Args:
        batch: largest number of requests in a batch.
        tokens: largest cost of a batch; a request that costs more goes alone. It limits the time
            until the next batch.
        waiting: requests of all tenants that may wait. A tenant with fewer than `FLOOR` may always
            add one, so other tenants cannot lock it out.
        per_tenant: requests of one tenant that may wait.
        streams: open streams of all tenants.
        pieces: unread pieces of one stream; beyond them, its row pauses.
        patience: seconds to wait for room before a request is refused.

    Attributes:
        device_lost: whether no later work can run, see `is_device_loss`.
        on_device_loss: called once, on the model's thread.
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
        self.device_lost = False
        self.on_device_loss: Callable[[], None] = lambda: None
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
        """Queue ``request`` for ``work``, which gets all its requests of a batch at once.

        Args:
            work: yields the answer to each request once, with its index, as soon as possible. An
                exception in place of an answer concerns one request. A raised exception concerns
                all remaining requests.
            request: the argument of ``work``.
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
        """Queue ``request`` for an answer in pieces, each from a separate step.

        Args:
            work: makes one step of every row, in the way that `submit`'s work makes answers.
            request: of the first step; each step returns the request of the next one.
            cost: the first step's share of a batch, in tokens.

        Raises:
            Overloaded: the limit of open streams stayed reached. Unavailable: the batcher is
                closed.
        """

        row = _Row(tenant, work, Stream(self._pieces, lambda: self._resume(row)))
        with self._changed:
            self._wait_for(lambda: self._slot(tenant))
            self._open.add(row)
            self._push_step(row, request, cost)
        row.stream.ended.add_done_callback(lambda _: self._leave(row))
        return row.stream

    def close(self) -> None:
        """End streams, answer all other queued requests, and stop."""
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
        if row in self._open:  # not if cancelled meanwhile
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
            row.step = row.held_back = None  # a remaining reader keeps the pieces alive
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
        if isinstance(answer, Exception) and is_device_loss(answer):
            if not self.device_lost:
                _log.critical("the device failed; this process must start again: %s", answer)
                self.device_lost = True
                self.on_device_loss()
            answer = device_loss()
        self._metrics.latency.observe(time.perf_counter() - waiting.since)
        waiting.give(answer)

    def _take(self) -> list[_Waiting]:
        """Wait for the next batch and return it; empty at the end."""
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


_LOST: Final = (
    "device-side assert",
    "illegal memory access",
    "illegal instruction",
    "misaligned address",
    "unspecified launch failure",
    "uncorrectable ECC",
    "launch timed out",
)


def is_device_loss(error: Exception) -> bool:
    """Return whether no later work of this process can run on its GPU.

    CUDA answers every later call with the same error, for all tenants.
    """
    told = str(error)
    of_cuda = isinstance(error, RuntimeError) and "CUDA error" in told
    return of_cuda and any(failure in told for failure in _LOST)


def device_loss() -> Unavailable:
    """Return the error of work on a lost device."""
    return Unavailable("the cloud's device failed", fix="send the same message again later")


def _resolve(answer: Future[Any], found: Any) -> None:
    if isinstance(found, Exception):
        answer.set_exception(found)
    else:
        answer.set_result(found)


def _stopping() -> Unavailable:
    return Unavailable("the cloud is stopping", fix="send the same message again later")
