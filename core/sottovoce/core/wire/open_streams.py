"""A bound on open streams: at the limit, a new stream replaces an idle one.

An open stream holds a thread for as long as its caller likes, and some services do not authenticate
callers. If the server refused new streams at the limit, a few silent callers could keep everyone
out. So the server ends the idle streams instead.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from sottovoce.core.wire.interception import Handler, Interceptor, wrapped
from sottovoce.core.wire.peer import host

__all__ = ["OpenStreams"]


@dataclass(eq=False)
class _Stream:
    context: grpc.ServicerContext
    caller: Hashable
    moved: float = field(default_factory=time.monotonic)
    """The time of the last message in either direction."""


class OpenStreams(Interceptor):
    """Bounds the streams of all its services together; goes inside the error interceptor.

    Beyond the limit, the server takes the caller with the most open streams. It ends that caller's
    stream that has been idle for the longest. So a stream in use stays, however many streams others
    open.

    Args:
        most: streams open at once.
        concerns: whether a service is bounded, by its name.
        whose: the caller of a stream, called in the context of the stream's call; by default its
            host.
    """

    def __init__(
        self,
        most: int,
        concerns: Callable[[str], bool] = lambda service: True,
        whose: Callable[[grpc.ServicerContext], Hashable] = lambda context: host(context.peer()),
    ) -> None:
        self._most = most
        self._concerns, self._whose = concerns, whose
        self._open: set[_Stream] = set()
        self._lock = threading.Lock()

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        listens, answers = bool(handler.request_streaming), bool(handler.response_streaming)
        if not self._concerns(service) or not (listens or answers):
            return handler

        def unary(method: Callable[..., Any]) -> Callable[..., Any]:
            def call(requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
                with self._held(context) as stream:
                    return method(_noted(requests, stream), context)

            return call

        def streaming(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                with self._held(context) as stream:
                    asked = _noted(request, stream) if listens else request
                    yield from _noted(method(asked, context), stream)

            return call

        return wrapped(handler, unary, streaming)

    @contextmanager
    def _held(self, context: grpc.ServicerContext) -> Iterator[_Stream]:
        stream = _Stream(context, self._whose(context))
        gives_way: _Stream | None = None
        with self._lock:
            self._open.add(stream)
            if len(self._open) > self._most:
                gives_way = self._stillest()
                self._open.remove(gives_way)
        if gives_way is not None:
            gives_way.context.cancel()
        try:
            yield stream
        finally:
            with self._lock:
                self._open.discard(stream)

    def _stillest(self) -> _Stream:
        counts = Counter(stream.caller for stream in self._open)
        most = max(counts.values())
        return min((s for s in self._open if counts[s.caller] == most), key=lambda s: s.moved)


def _noted(messages: Iterable[Any], stream: _Stream) -> Iterator[Any]:
    for message in messages:
        stream.moved = time.monotonic()
        yield message
