"""What goes around the calls of a server's methods."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, TypeAlias

import grpc

from sottovoce.core.wire.unreadable import tolerant

__all__ = ["Handler", "Interceptor", "within", "wrapped"]

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"


class Interceptor(grpc.ServerInterceptor):
    """Goes around the calls of those methods that the server has."""

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Handler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = continuation(handler_call_details)
        if handler is None:
            return None
        path = handler_call_details.method
        inner, made = self._made.get(path, (None, None))
        if inner is not handler:
            service, _, method = path.strip("/").partition("/")
            made = self.around(handler, service, method)
            self._made[path] = handler, made
        return made

    @cached_property
    def _made(self) -> dict[str, tuple[Handler, Handler]]:
        """By path, the handler of each method that was called, and what is around it. gRPC asks for
        it at every call, on the one thread that takes all calls in."""
        return {}

    @abstractmethod
    def around(self, handler: Handler, service: str, method: str) -> Handler:
        """The handler to answer all calls of a method with."""


def within(
    handler: Handler, held: Callable[[grpc.ServicerContext], AbstractContextManager[None]]
) -> Handler:
    """The handler, whose calls hold ``held`` for as long as they last."""

    def unary(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            with held(context):
                return method(request, context)

        return call

    def stream(method: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
            with held(context):
                yield from method(request, context)

        return call

    return wrapped(handler, unary, stream)


def wrapped(
    handler: Handler,
    unary: Callable[[Callable[..., Any]], Callable[..., Any]],
    stream: Callable[[Callable[..., Iterator[Any]]], Callable[..., Iterator[Any]]],
) -> Handler:
    """The handler with its method wrapped by ``unary`` if it answers once, else by ``stream``. What
    it wraps may be asked with `UNREADABLE`, which `ErrorInterceptor` answers."""
    kinds: dict[tuple[bool, bool], tuple[Any, Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream),
    }
    make, method = kinds[handler.request_streaming, handler.response_streaming]
    wrap: Callable[[Any], Any] = stream if handler.response_streaming else unary
    return make(  # type: ignore[no-any-return]
        wrap(method),
        request_deserializer=tolerant(handler.request_deserializer),
        response_serializer=handler.response_serializer,
    )
