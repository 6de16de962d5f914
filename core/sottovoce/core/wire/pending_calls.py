"""Bounds calls that were opened without a message, so that they block no other caller.

grpcio gives a call a thread when its headers arrive, and the thread then waits for the message
without a time limit. A few hundred headers from any client could block the server. Here the thread
waits in this module instead. Callers are identified first, and both the number of waiting calls and
their time are bounded.
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

__all__ = ["PendingCallLimiter"]

_NAMELESS = ""


class PendingCallLimiter(Interceptor):
    """Bounds how long, and how many, unary calls wait for their request.

    It goes inside the error interceptor. Streams are bounded by the methods that answer them.

    Beyond the limit, the server cancels the longest-waiting call of the caller with the most
    waiting calls. A caller that sends headers and message together is rarely affected. Its call is
    cancelled only if the limit is reached again before its message is read, and its message usually
    comes first.

    Args:
        most: calls waiting at once.
        seconds: time limits, first for identified callers, whose line may be slow, and then for
            all others, whose requests are a few bytes.
        tenants_only: names of the services that answer tenants alone.
        authenticate: returns the tenant of a call, or raises `Unauthenticated`.
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
        """The waiting calls by caller, oldest first, each with its deadline."""
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self) -> None:
        """Start to check for calls that wait too long."""
        threading.Thread(target=self._look, name="doorkeeper", daemon=True).start()

    def close(self) -> None:
        """Stop checking."""
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

        # Registered with streamed requests, so that gRPC calls it before the request arrives.
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
