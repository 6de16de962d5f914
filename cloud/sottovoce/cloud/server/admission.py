"""Limits on open calls: in total, and for each tenant.

An open call holds a thread of the server for its whole duration. Without a limit for each tenant,
one tenant could hold all threads, and other tenants would be refused before authentication. A few
tenants must not exhaust the server together either. So a tenant gets no more calls once its open
calls equal the calls that are still free. Later tenants then still find free threads (dynamic
thresholds, Choudhury and Hahne 1998).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sottovoce.core.errors import Overloaded

__all__ = ["Admission"]


class Admission:
    """Counts open calls.

    Args:
        calls: the most open calls in total.
        per_tenant: the most open calls of one tenant; fewer while many are open.
    """

    def __init__(self, *, calls: int, per_tenant: int) -> None:
        self._calls, self._per_tenant = calls, per_tenant
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def admitted(self, tenant: str) -> Iterator[None]:
        """Admit one call of ``tenant`` for the duration of the block.

        Raises:
            Overloaded: too many calls are open, in total or for this tenant.
        """
        with self._lock:
            if self._open[tenant] >= self._per_tenant:
                raise Overloaded(
                    f"{self._per_tenant} calls of this tenant are open already",
                    fix="end one, or send more on a stream that is open",
                    subject="calls",
                )
            if self._open[tenant] >= self._calls - self._open.total():
                raise Overloaded(
                    "the cloud has too many calls open",
                    fix="send the same message again later",
                    subject="calls",
                )
            self._open[tenant] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[tenant] -= 1
                if not self._open[tenant]:
                    del self._open[tenant]
