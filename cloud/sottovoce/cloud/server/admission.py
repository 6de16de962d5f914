"""How many calls may be open at once: in total, and for each tenant.

Why it is here: an open call holds a thread of the server for as long as it lasts. Without a share
of its own each tenant could have all of them, and others would be turned away before anyone looked
at who they are. Nor may a few have all of them by their shares together: a tenant that holds as
many as are still free gets no more, so that who comes later finds room, however many hold what they
can (dynamic thresholds, Choudhury and Hahne 1998).
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
        calls: open at once, at most.
        per_tenant: of one tenant, at most; fewer where many are open.
    """

    def __init__(self, *, calls: int, per_tenant: int) -> None:
        self._calls, self._per_tenant = calls, per_tenant
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def admitted(self, tenant: str) -> Iterator[None]:
        """One call of ``tenant``, while the block lasts.

        Raises:
            Overloaded: too many are open, of all tenants or of this one.
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
