"""Count the calls of every method of a server, as they end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from sottovoce.cloud.metrics import CallMetrics
from sottovoce.core.rpc.interceptors import Handler, Interceptor, within

__all__ = ["CallCounter"]


class CallCounter(Interceptor):
    """Goes outside the error interceptor."""

    def __init__(self, metrics: CallMetrics) -> None:
        self._calls = metrics.calls

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        return within(handler, lambda context: self._counted(method, context))

    @contextmanager
    def _counted(self, method: str, context: Any) -> Iterator[None]:
        try:
            yield
        finally:
            left = grpc.StatusCode.OK if context.is_active() else grpc.StatusCode.CANCELLED
            self._calls.labels(method, (context.code() or left).name).inc()
