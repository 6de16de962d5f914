"""Streams that Ctrl-C can interrupt without harm to the next call.

Python interrupts its main thread anywhere, even between taking a lock and recording it. Inside
gRPC, that leaves a channel locked, and the next call waits forever. So another thread reads the
stream, and Ctrl-C interrupts only the wait for that thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from queue import SimpleQueue
from typing import Generic, TypeVar

from sottovoce.edge.client.cloud import Stoppable

__all__ = ["interruptible"]

T = TypeVar("T")


def interruptible(
    answer: Callable[[Stoppable], Generator[T, None, None]],
) -> Generator[T, None, None]:
    """Yield the items of ``answer``, read in a separate thread.

    Closing this generator stops ``answer``.

    Args:
        answer: makes the stream; it calls its argument with the function that stops it.

    Raises:
        BaseException: any error that ``answer`` raises.
    """
    reader = _Reader(answer)
    thread = threading.Thread(target=reader.run, daemon=True)
    thread.start()
    try:
        while (came := reader.came.get()) is not None:
            if isinstance(came, BaseException):
                raise came
            yield came[0]
    finally:
        reader.stop()


class _Reader(Generic[T]):
    def __init__(self, answer: Callable[[Stoppable], Generator[T, None, None]]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._stops: list[Callable[[], None]] = []
        self._stopped = False
        self.came: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()

    def run(self) -> None:
        try:
            with closing(self._answer(self._stoppable)) as events:
                for event in events:
                    self.came.put((event,))
        except BaseException as error:
            self.came.put(error)
        self.came.put(None)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            stops = self._stops.copy()
        for stop in stops:
            stop()

    def _stoppable(self, stop: Callable[[], None]) -> None:
        with self._lock:
            stopped = self._stopped
            self._stops.append(stop)
        if stopped:
            stop()
