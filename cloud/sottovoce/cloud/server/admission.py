"""How many calls may be open at once: in total, and for each tenant.

Why it is here: an open call holds a thread of the server for as long as it lasts. Without a share
of its own each tenant could have all of them, and others would be turned away before anyone looked
at who they are.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from sottovoce.core.errors import Overloaded
from sottovoce.core.wire.interception import Handler, Interceptor, within

__all__ = ["Admission", "AnonymousStreams"]


class Admission:
    """Counts open calls.

    Args:
        calls: open at once, at most.
        per_tenant: of one tenant, at most.
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
            if self._open.total() >= self._calls:
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


class AnonymousStreams(Interceptor):
    """Bounds the streams of all services that ask nobody who they are; goes inside the error
    interceptor.

    Args:
        tenants_only: names of the services that do ask, and count for themselves.
        streams: open at once, at most.
    """

    def __init__(self, tenants_only: Collection[str], streams: int) -> None:
        self._tenants_only = tenants_only
        # One more than there are: it is the cloud that is full, not a tenant who has too many.
        self._admission = Admission(calls=streams, per_tenant=streams + 1)

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        streams = handler.request_streaming or handler.response_streaming
        if service in self._tenants_only or not streams:
            return handler
        return within(handler, lambda _: self._admission.admitted(""))
