"""Limit failed attempts from one address, so that short codes cannot be guessed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sottovoce.core.errors import InvalidInput, Overloaded, Unauthenticated
from sottovoce.core.rpc.channels import host

__all__ = ["MOST", "SECONDS", "FailedAttemptLimiter"]

MOST: Final = 10
SECONDS: Final = 60.0
_HOSTS: Final = 4096


class FailedAttemptLimiter:
    """Counts failures by host: `MOST` in `SECONDS`, including attempts in progress.

    Args:
        clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counted: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By host: the start of its count, and the count; oldest first."""
        self._lock = threading.Lock()

    @contextmanager
    def one(self, peer: str) -> Iterator[None]:
        """Run the block as one attempt, which counts against the host if it fails.

        Args:
            peer: the caller as gRPC names it.

        Raises:
            Overloaded: the host has no attempts left.
        """
        name = host(peer)
        self._add(name, 1)
        try:
            yield
        except (InvalidInput, Unauthenticated):
            raise
        except BaseException:
            self._add(name, -1)
            raise
        self._add(name, -1)

    def _add(self, name: str, change: int) -> None:
        with self._lock:
            now = self._clock()
            while self._counted and (
                next(iter(self._counted.values()))[0] <= now - SECONDS
                or len(self._counted) > _HOSTS
            ):
                self._counted.popitem(last=False)
            since, count = self._counted.get(name, (now, 0))
            if count + change > MOST:
                raise Overloaded(
                    "too many codes from this address were wrong", fix="try again in a minute"
                )
            if name in self._counted or change > 0:
                self._counted[name] = since, max(count + change, 0)
