"""Which calls belong together, and where their time went: spans, off unless somebody turns them on.

Why it is here: a call goes through an agent, a balancer, a replica and perhaps a trainer. A span
has a name from the program, times, and numbers. There is no way to give one a text: no argument
takes any. Beside it goes an id that tells which spans are of one call, and that links what it is
sent with; so a device sends none unless its owner turned this on
(W3C Trace Context: the header ``traceparent``).

Nothing here imports OpenTelemetry. Where it is off, a span is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

import grpc

from sottovoce.core.wire.interception import Handler, Interceptor, wrapped

__all__ = ["HEADER", "Span", "Traced", "Tracer", "begun", "here", "metadata", "noted_by"]
__all__ += ["span", "streamed"]

HEADER: Final = "traceparent"
_OURS: Final = "sottovoce."


class Span(Protocol):
    """One that was begun."""

    def current(self) -> AbstractContextManager[None]:
        """While the block lasts, what is begun on this thread is a part of it."""
        ...

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        """It took until now."""
        ...


class Tracer(Protocol):
    """What notes spans."""

    def begin(self, name: str, parent: str, numbers: dict[str, int]) -> Span:
        """A span of now on; ``parent`` is a ``traceparent``, "" for the thread's current span."""
        ...

    def here(self) -> str:
        """The ``traceparent`` of this thread's current span; "" if it has none."""
        ...

    def close(self) -> None:
        """Hands on what was noted; no more is taken."""
        ...


class _Nothing:
    """A span where tracing is off."""

    def current(self) -> AbstractContextManager[None]:
        return nullcontext()

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        pass


_NOTHING: Final = _Nothing()
_tracer: Tracer | None = None


@contextmanager
def noted_by(tracer: Tracer) -> Iterator[None]:
    """While the block lasts, ``tracer`` notes this process's spans; it is closed then."""
    global _tracer
    before, _tracer = _tracer, tracer
    try:
        yield
    finally:
        _tracer = before
        tracer.close()


def begun(name: str, parent: str = "", **numbers: int) -> Span:
    """A span that its caller ends.

    Args:
        name: from the program, never from a caller: of a method or a stage.
        parent: ``traceparent`` of the span that it is a part of; that of this thread if "".
        numbers: to note with it.
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
    """A span of the block, see `begun`; this thread's current one meanwhile."""
    return nullcontext() if _tracer is None else _spanning(_tracer, name, parent, numbers)


def here() -> str:
    """The ``traceparent`` of what this thread is at; "" where tracing is off, or it is at nothing
    that is traced."""
    return "" if _tracer is None else _tracer.here()


def metadata() -> tuple[tuple[str, str], ...]:
    """What tells whom we call that the call is a part of this thread's span; nothing when off."""
    found = here()
    return ((HEADER, found),) if found else ()


@contextmanager
def streamed(name: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """A span of a block that yields, which others may go on with: it is nobody's current one, and
    what `metadata` would give is given."""
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
    except GeneratorExit:  # whoever listened has heard enough
        failed = False
        raise
    finally:
        found.end(failed=failed)


class Traced(Interceptor):
    """A span for every call of a service of ours.

    It goes outside of what turns exceptions into a status, which it notes by number.

    Args:
        callers: whether the span is a part of its caller's, if that sent one. An agent's is not:
            what an app sends goes on to nobody, and be it an id.
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
