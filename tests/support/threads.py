"""Threads that outlive their test, and may do something in the middle of another."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from concurrent.futures import thread as pools
from contextlib import contextmanager

from tests.support.waiting import until


@contextmanager
def none_left(*, in_pools: bool) -> Iterator[None]:
    """Fails if a thread that began within the block does not end with it.

    Args:
        in_pools: also those of thread pools, which wait for work; a server that several tests
            share starts them as calls come.
    """
    before = set(threading.enumerate())
    yield

    def left() -> set[threading.Thread]:
        pooled = set() if in_pools else set(pools._threads_queues)
        # The monitor of progress bars begins with a library's first bar and stays by design.
        # gRPC's own threads get an entry once they log something, and keep it.
        found = {
            thread
            for thread in threading.enumerate()
            if not type(thread).__module__.startswith("tqdm")
            and not isinstance(thread, threading._DummyThread)
        }
        stayed = found - before - pooled
        if stayed:
            gc.collect()  # a pool that nobody holds ends its threads once it is collected
        return stayed

    try:
        until(lambda: not left(), 120.0)
    except AssertionError:
        raise AssertionError(f"left behind: {sorted(map(repr, left()))}") from None
