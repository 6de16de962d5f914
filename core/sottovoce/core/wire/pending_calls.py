"""Calls that never begin: who has opened one and sends no message waits in nobody's way.

Why it is here: grpcio gives a call a thread when its headers arrive, and the thread then waits for
the message without an end. A few hundred headers from anyone would so close the cloud to all. Here
the thread waits in our own code: callers are known before it does, and so many calls may wait at
once, for so long.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from sottovoce.core.errors import InvalidInput
from sottovoce.core.wire.interception import Handler, Interceptor

__all__ = ["Doorkeeper"]

_NAMELESS = ""


class Doorkeeper(Interceptor):
    """Bounds how long, and how many, calls of unary requests wait for their request; goes inside
    the error interceptor. Streams are bounded by those who answer them.

    Where one more call waits than may, the one that has waited longest is ended, of the caller who
    has most waiting. Who sends headers and message together is that one only if as many more come
    before his message is read, which is over when they have come.

    Args:
        most: calls waiting at once.
        seconds: patience with those who have said who they are, whose line may be slow, and with
            all others, whose requests are a few bytes.
        tenants_only: names of the services that answer tenants alone.
        authenticate: gives the tenant of a call, or raises `Unauthenticated`.
    """

    def __init__(
        self,
        *,
        most: int,
        seconds: tuple[float, float],
        tenants_only: Collection[str] = (),
        authenticate: Callable[[grpc.ServicerContext], str] = lambda context: _NAMELESS,
    ) -> None:
        self._tenants_only = tenants_only
        self._authenticate = authenticate
        self._most = most
        self._patience, self._patience_nameless = seconds
        self._waiting: dict[str, dict[grpc.ServicerContext, float]] = {}
        """By caller the calls that wait, oldest first, each with the time it is ended at."""
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Begins to look for calls that wait too long."""
        threading.Thread(target=self._look, name="doorkeeper", daemon=True).start()

    def close(self) -> None:
        """Looks no more."""
        self._closed.set()

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        if handler.request_streaming:
            return handler

        def first(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            name = _NAMELESS
            if service in self._tenants_only:
                name = self._authenticate(context)
            with self._waits(name, context):
                for request in requests:
                    return request
            raise InvalidInput(
                "the call ended without a request", fix="send one message", subject="request"
            )

        answer: Any = handler.unary_stream or handler.unary_unary

        def once(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
            return answer(first(requests, context), context)

        def many(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            yield from answer(first(requests, context), context)

        # As a method whose requests are a stream, so that it is called before the first is there.
        make, call = (
            (grpc.stream_stream_rpc_method_handler, many)
            if handler.response_streaming
            else (grpc.stream_unary_rpc_method_handler, once)
        )
        return make(
            call,
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    @contextmanager
    def _waits(self, name: str, context: grpc.ServicerContext) -> Iterator[None]:
        patience = self._patience if name else self._patience_nameless
        oldest: grpc.ServicerContext | None = None
        with self._lock:
            self._waiting.setdefault(name, {})[context] = time.monotonic() + patience
            if sum(map(len, self._waiting.values())) > self._most:
                crowd = max(self._waiting.values(), key=len)
                oldest = next(iter(crowd))
                del crowd[oldest]
        if oldest is not None:
            oldest.cancel()
        try:
            yield
        finally:
            with self._lock:
                crowd = self._waiting.get(name, {})
                crowd.pop(context, None)
                if not crowd:
                    self._waiting.pop(name, None)

    def _look(self) -> None:
        while not self._closed.wait(min(1.0, self._patience_nameless)):
            now = time.monotonic()
            with self._lock:
                late = [
                    context
                    for crowd in self._waiting.values()
                    for context, until in crowd.items()
                    if until < now
                ]
            for context in late:
                context.cancel()
