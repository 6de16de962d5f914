"""One request for all threads that want the same result at the same time.

With a lock, each thread would send a request in turn. If the cloud is away, the last thread would
fail only after all the others' deadlines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["SingleFlight"]

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Makes one request on behalf of all waiting threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: Future[T] | None = None

    def ask(self, how: Callable[[], T]) -> T:
        """Return or raise the result of ``how``, or of the request in progress."""
        with self._lock:
            running = self._asking
            asked: Future[T] = running or Future()
            self._asking = asked
        if running is None:
            try:
                asked.set_result(how())
            except BaseException as error:
                asked.set_exception(error)
            with self._lock:
                self._asking = None
        return asked.result()
