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
    """Fail if a thread that began within the block outlives it.

    ``in_pools`` includes threads of pools, which a shared server starts on demand.
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
        return found - before - pooled

    waits = 0

    def ended() -> bool:
        nonlocal waits
        waits += 1
        # A pool that nobody holds ends its threads once it is collected. As a collection takes
        # long beside models, it comes ever more seldom.
        if waits.bit_count() == 1 and waits >= 16 and left():
            gc.collect()
        return not left()

    try:
        until(ended, 120.0)
    except AssertionError:
        raise AssertionError(f"left behind: {sorted(map(repr, left()))}") from None
