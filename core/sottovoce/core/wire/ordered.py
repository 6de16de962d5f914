"""Answers a stream in order while a bounded number of requests is read ahead.

Both servers answer streams whose requests take a while. Reading ahead lets the server work on
several requests together. The window bounds the memory of a stream however long it is, and slows a
sender that is faster than the server.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterable
from contextvars import copy_context
from typing import TypeVar

__all__ = ["ordered"]

Q = TypeVar("Q")
A = TypeVar("A")

_TICK = 0.5
"""Seconds after which a waiting thread checks that the caller is still there."""


def ordered(
    requests: Iterable[Q],
    begin: Callable[[Q], Callable[[], A]],
    *,
    window: int,
    active: Callable[[], bool] = lambda: True,
) -> Generator[tuple[Q, A], None, None]:
    """Yield every request with its answer, in order.

    Args:
        requests: read on a separate thread, in the caller's context; the thread ends soon after
            the stream.
        begin: starts work on a request, on that thread; the function it returns waits for the
            answer, on the caller's thread.
        window: the most requests begun and not yet answered.
        active: whether the caller's caller is still there.

    Raises:
        What ``requests``, ``begin`` or an answer raises, after all answers before it.
    """
    begun: queue.Queue[tuple[Q, Callable[[], A]] | BaseException | None] = queue.Queue(window)
    left = threading.Event()

    def offer(item: tuple[Q, Callable[[], A]] | BaseException | None) -> bool:
        while active() and not left.is_set():
            try:
                begun.put(item, timeout=_TICK)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for request in requests:
                if not offer((request, begin(request))):
                    return
            offer(None)
        except BaseException as error:
            offer(error)

    threading.Thread(target=copy_context().run, args=(read,), name="stream", daemon=True).start()
    try:
        while active():
            try:
                item = begun.get(timeout=_TICK)
            except queue.Empty:
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            request, answer = item
            yield request, answer()
    finally:
        left.set()
