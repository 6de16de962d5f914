"""Threads that want the same at the same time get it by one request.

Why it is here: with a lock each of them would ask in its turn; of a cloud that is away the last
would hear after all the others' deadlines.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

__all__ = ["Together"]

T = TypeVar("T")


class Together(Generic[T]):
    """Asks on behalf of all who wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking: Future[T] | None = None

    def ask(self, how: Callable[[], T]) -> T:
        """What ``how`` gives or raises, or that of whoever is asking already."""
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
