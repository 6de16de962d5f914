"""One thread for the model, and work for it in batches.

Why it is here: predictions and embeddings come from one model in memory, which one thread at a time
may drive. What has arrived by the time the thread is free is answered together; whoever asks when
too much is waiting already is told so rather than kept.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from sottovoce.edge.errors import Overloaded

__all__ = ["BATCH", "Batcher"]

BATCH = 32
PATIENCE = 10.0
"""Seconds a request waits for room in the queue."""

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class _Waiting:
    work: Callable[[Sequence[Any]], Sequence[Any]]
    request: Any
    answer: Future[Any]


class Batcher:
    """Runs work in batches on a thread of its own; ``close`` ends it.

    Args:
        batch: requests answered at once, at most.
        patience: seconds to wait for room before a request is refused.
    """

    def __init__(self, *, batch: int = BATCH, patience: float = PATIENCE) -> None:
        self._batch = batch
        self._patience = patience
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(maxsize=4 * batch)
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def submit(
        self, work: Callable[[Sequence[Q]], Sequence[A | Exception]], request: Q
    ) -> Future[A]:
        """Queues ``request`` for ``work``, which is given all its requests of a batch at once.

        Args:
            work: answers requests, one answer each; an exception stands for that answer alone.
            request: what to answer.

        Raises:
            Overloaded: the queue stayed full.
        """
        answer: Future[A] = Future()
        try:
            self._queue.put(_Waiting(work, request, answer), timeout=self._patience)
        except queue.Full:
            raise Overloaded(
                "the cloud has too much to do", fix="send the same message again later"
            ) from None
        return answer

    def close(self) -> None:
        """Answers what is queued, then ends."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            batch: list[_Waiting] = []
            item = self._queue.get()
            while item is not None:
                batch.append(item)
                if len(batch) == self._batch:
                    break
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            by_work: dict[Any, list[_Waiting]] = {}
            for waiting in batch:
                by_work.setdefault(waiting.work, []).append(waiting)
            for work, those in by_work.items():
                _answer(work, those)
            if item is None:
                return


def _answer(work: Callable[[Sequence[Any]], Sequence[Any]], those: Sequence[_Waiting]) -> None:
    try:
        answers = work([waiting.request for waiting in those])
    except Exception as error:
        answers = [error] * len(those)
    for waiting, answer in zip(those, answers, strict=True):
        if isinstance(answer, Exception):
            waiting.answer.set_exception(answer)
        else:
            waiting.answer.set_result(answer)
