"""Both ends of gRPC calls: options of channels, names of headers, and interceptors of servers.

gRPC's own retries are off, because they lose the end of a stream. If a stream is opened while its
server shuts down (at every restart of a service), the call fails and reports it. But gRPC then
never completes the response, so its reader waits for ever, despite deadline and cancellation.
Without gRPC's retries this does not happen. `sottovoce.edge.client.retry` retries the calls that
may be repeated.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partialmethod
from typing import Any, Final, TypeAlias

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.v1 import generation_pb2, inference_pb2, training_pb2

NO_RETRIES: Final = ("grpc.enable_retries", 0)


REFLECTION = ("grpc.reflection.v1.ServerReflection", reflection.SERVICE_NAME)


def serve_reflection(server: grpc.Server, services: Sequence[str]) -> None:
    """Let `server` list its services: the named ones and reflection itself."""
    known = (*services, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(known, server)
    answers: Any = reflection.ReflectionServicer(known)
    method = grpc.stream_stream_rpc_method_handler(
        answers.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handler = grpc.method_handlers_generic_handler(REFLECTION[0], {"ServerReflectionInfo": method})
    server.add_generic_rpc_handlers((handler,))


TENANT_KEY: Final = "sottovoce-tenant"
"""The header that names the tenant."""
TOKEN_KEY: Final = "authorization"  # noqa: S105 - the name of a header
BEARER: Final = "Bearer "
"""The prefix of the token in its header."""

TENANTS_ONLY: Final = (
    training_pb2.DESCRIPTOR.services_by_name["TrainingService"].full_name,
    inference_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name,
    generation_pb2.DESCRIPTOR.services_by_name["GenerationService"].full_name,
)
"""The services that require a token."""


def host(peer: str) -> str:
    """Return the host of a gRPC peer: ``ipv4:1.2.3.4:5``, ``ipv6:%5B::1%5D:5`` or ``unix:``.

    For IPv4 this is the address. For IPv6 it is the first 64 bits, because one subscriber usually
    has all addresses below them.
    """
    kind, _, rest = peer.partition(":")
    address = rest.rpartition(":")[0].replace("%5B", "").replace("%5D", "").strip("[]")
    if kind == "ipv6":
        try:
            return str(ipaddress.ip_network((address, 64), strict=False))
        except ValueError:
            return address
    return address


UNREADABLE: Final = object()
"""Stands for a message that could not be parsed."""

_Deserializer = Callable[[bytes], Any]


def tolerant(deserialize: _Deserializer | None) -> _Deserializer | None:
    """Return a deserialiser that returns `UNREADABLE` where the given one would raise."""
    if deserialize is None:
        return None

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except Exception:  # of any kind: it must not reach gRPC, or quote the bytes
            return UNREADABLE

    return read


def asked(request: Any) -> Any:
    """Return a request as it arrived.

    Raises:
        InvalidInput: it could not be parsed.
    """
    if request is UNREADABLE:
        raise InvalidInput(
            "the request is not a message of this method",
            fix="send the message that the method's definition names",
            subject="request",
        )
    return request


def answered(response: Any, *, peer: str) -> Any:
    """Return a response as it arrived from ``peer`` ("the cloud at host:port").

    Raises:
        Unavailable: it could not be parsed. The peer may be another program, or about to be
            replaced; trying again may help.
    """
    if response is UNREADABLE:
        raise Unavailable(
            f"{peer} sent an answer that cannot be read",
            fix="check that the address is right and that both sides have the same version",
        )
    return response


class ReadingChannel:
    """A channel for stubs; its responses may be `UNREADABLE`, see `answered`."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def _call(
        self,
        shape: str,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: _Deserializer | None = None,
        **options: Any,
    ) -> Any:
        make = getattr(self._channel, shape)
        return make(method, request_serializer, tolerant(response_deserializer), **options)

    unary_unary = partialmethod(_call, "unary_unary")
    unary_stream = partialmethod(_call, "unary_stream")
    stream_unary = partialmethod(_call, "stream_unary")
    stream_stream = partialmethod(_call, "stream_stream")


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
