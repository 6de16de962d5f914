"""Spans that show where the time of a call went; off by default.

A call goes through an agent, a balancer, a replica and perhaps a trainer. A span has a name from
the program, times, and numbers. It cannot hold a text, because no argument takes one. An id travels
with the call and connects its spans (W3C Trace Context: the header ``traceparent``). The id also
links the messages that it is sent with, so a device sends none unless its owner turned this on.

This module does not import OpenTelemetry. With tracing off, a span does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

import grpc

from sottovoce.core.rpc.interceptors import Handler, Interceptor, wrapped

__all__ = ["HEADER", "Span", "Traced", "Tracer", "begun", "here", "metadata", "noted_by"]
__all__ += ["span", "streamed"]

HEADER: Final = "traceparent"
_OURS: Final = "sottovoce."


class Span(Protocol):
    """A span that was begun."""

    def current(self) -> AbstractContextManager[None]:
        """Make this span the parent of all spans begun on this thread while the block lasts."""
        ...

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        """End the span now."""
        ...


class Tracer(Protocol):
    """Records spans."""

    def begin(self, name: str, parent: str, numbers: dict[str, int]) -> Span:
        """Begin a span now.

        ``parent`` is a ``traceparent``, "" for the thread's current span.
        """
        ...

    def here(self) -> str:
        """Return the ``traceparent`` of this thread's current span; "" if it has none."""
        ...

    def close(self) -> None:
        """Send the recorded spans, and record no more."""
        ...


class _Nothing:
    """The span that is used with tracing off."""

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        pass


_NOTHING: Final = _Nothing()
_tracer: Tracer | None = None


@contextmanager
def noted_by(tracer: Tracer) -> Iterator[None]:
    """Record this process's spans with ``tracer`` while the block lasts, then close the tracer."""
    global _tracer
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before
        tracer.close()


def begun(name: str, parent: str = "", **numbers: int) -> Span:
    """Begin a span that its caller ends.

    Args:
        name: of a method or a stage, from the program and never from a caller.
        parent: ``traceparent`` of the parent span; this thread's current span if "".
        numbers: recorded with the span.
    """
    return _NOTHING if _tracer is None else _tracer.begin(name, parent, numbers)


@contextmanager
def _spanning(tracer: Tracer, name: str, parent: str, numbers: dict[str, int]) -> Iterator[None]:
    found = tracer.begin(name, parent, numbers)
    failed = True
    try:
        with found.current():
            yield
        failed = False
    finally:
        found.end(failed=failed)


def span(name: str, parent: str = "", **numbers: int) -> AbstractContextManager[None]:
    """Record the block as a span, this thread's current one meanwhile; see `begun`."""
    return nullcontext() if _tracer is None else _spanning(_tracer, name, parent, numbers)


def here() -> str:
    """Return the ``traceparent`` of this thread's current span.

    It is "" if tracing is off or there is no current span.
    """
    return "" if _tracer is None else _tracer.here()


def metadata() -> tuple[tuple[str, str], ...]:
    """Return the header that links a call to this thread's span; nothing when off."""
    found = here()
    return ((HEADER, found),) if found else ()


@contextmanager
def streamed(name: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """Record a block that yields as a span, and yield its `metadata`.

    Other threads may resume the block, so the span is no thread's current one.
    """
    if _tracer is None:
        yield ()
        return
    found = _tracer.begin(name, "", {})
    with found.current():
        told = metadata()
    failed = True
    try:
        yield told
        failed = False
    except GeneratorExit:  # the reader has stopped
        failed = False
        raise
    finally:
        found.end(failed=failed)


class Traced(Interceptor):
    """Records a span for every call of our services.

    It goes outside the interceptor that turns exceptions into a status, and records the status
    number.

    Args:
        callers: whether the span is a child of the caller's, if the caller sent one. An agent's is
            not: nothing that an app sends is passed on, not even an id.
    """

    def __init__(self, *, callers: bool = True) -> None:
        self._parent = _parent if callers else lambda context: ""

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        if _tracer is None or not service.startswith(_OURS):
            return handler
        name = f"{service}/{method}"

        def unary(answer: Callable[..., Any]) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Any:
                found = begun(name, self._parent(context))
                failed = True
                try:
                    with found.current():
                        response = answer(request, context)
                    failed = False
                    return response
                finally:
                    found.end(failed=failed, **_status(context))

            return call

        def stream(answer: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                found = begun(name, self._parent(context))
                failed, pieces = True, 0
                try:
                    with found.current():
                        answers = answer(request, context)
                    while True:
                        # Not across a yield: another thread may go on with a generator.
                        with found.current():
                            piece = next(answers, _NOTHING)
                        if piece is _NOTHING:
                            break
                        pieces += 1
                        yield piece
                    failed = False
                finally:
                    found.end(failed=failed, answers=pieces, **_status(context))

            return call

        return wrapped(handler, unary, stream)


def _parent(context: grpc.ServicerContext) -> str:
    for key, value in context.invocation_metadata():
        if key == HEADER and isinstance(value, str):
            return value
    return ""


def _status(context: Any) -> dict[str, int]:
    code = context.code()
    return {} if code is None else {"status": code.value[0]}
