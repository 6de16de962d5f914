"""A base class for interceptors of a server's methods."""

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
    """Wraps the calls of the methods that the server has."""

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
        """The wrapped handler of each method that was called, by path.

        gRPC looks it up at every call, on the one thread that accepts all calls.
        """
        return {}

    @abstractmethod
    def around(self, handler: Handler, service: str, method: str) -> Handler:
        """Return the handler that answers all calls of a method."""


def within(
    handler: Handler, held: Callable[[grpc.ServicerContext], AbstractContextManager[None]]
) -> Handler:
    """Return the handler, with ``held`` entered for the length of each call."""

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
    """Return the handler with its method wrapped.

    ``unary`` wraps a method with one response, and ``stream`` wraps any other. The wrapped method
    may receive `UNREADABLE`, which `ErrorInterceptor` handles.
    """
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
