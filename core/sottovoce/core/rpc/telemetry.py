"""Logs of a process, and spans that show where the time of a call went; neither holds text.

This project's own log messages contain no text of users or tenants. A library's message, or any
exception's, may quote its input. For both, the log shows only where they were raised, not the
message. A log line is a sentence, or JSON. A JSON line from a library holds only its source and
level.

    {"time": "2026-11-23T03:00:00.123Z", "level": "info", "role": "trainer", "pid": 7,
     "logger": "sottovoce.cloud.training.worker", "message": "job 5f0c: 24 examples",
     "event": "job %s: %d examples"}

``event`` is the same for all lines of a kind, so that they can be counted.

Spans are off by default.
A call goes through an agent, a balancer, a replica and perhaps a trainer. A span has a name from
the program, times, and numbers. It cannot hold a text, because no argument takes one. An id travels
with the call and connects its spans (W3C Trace Context: the header ``traceparent``). The id also
links the messages that it is sent with, so a device sends none unless its owner turned this on.

OpenTelemetry is imported only if tracing is on and the extra ``trace`` is installed. Two things
that it would add by itself stay out. Messages and tracebacks of exceptions may quote text, and so
may attributes from the environment. From a caller only ``traceparent`` is read, which holds ids.
``tracestate`` and baggage are ignored, because they hold whatever the caller likes.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

import grpc

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc.address import is_loopback
from sottovoce.core.rpc.channels import Handler, Interceptor, wrapped
from sottovoce.core.rpc.error_status import kind_and_place

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.sampling import Sampler

HEADER: Final = "traceparent"
_PACKAGE: Final = "sottovoce."
_SHARE: Final = "OTEL_TRACES_SAMPLER_ARG"
_LAST_SECONDS: Final = 3.0
"""The most seconds to send the last spans at the end of the process."""


class Span:
    """A span that was begun; with tracing off, it does nothing."""

    def __init__(self, span: trace.Span | None = None) -> None:
        self._span = span

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this span the parent of all spans begun on this thread while the block lasts."""
        if self._span is None:
            yield
            return
        from opentelemetry.trace import use_span

        with use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        """End the span now."""
        if self._span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attributes(numbers)
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class OpenTelemetry:
    """Records spans, and hands them to a processor.

    Args:
        role: the kind of process.
        processor: receives every span that ended.

    Raises:
        ModuleNotFoundError: OpenTelemetry is not installed.
    """

    def __init__(self, role: str, processor: SpanProcessor) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.sampling import ParentBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        # A remote caller cannot decide whether this process records a span.
        own = _share()
        sampler = ParentBased(own, remote_parent_sampled=own, remote_parent_not_sampled=own)
        resource = Resource({"service.name": f"sottovoce-{role}"})
        self._provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("sottovoce")
        self._headers = TraceContextTextMapPropagator()

    def begin(self, name: str, parent: str, numbers: dict[str, int]) -> Span:
        context = self._headers.extract({HEADER: parent}) if parent else None
        return Span(self._tracer.start_span(name, context, attributes=numbers))

    def here(self) -> str:
        carrier: dict[str, str] = {}
        self._headers.inject(carrier)
        return carrier.get(HEADER, "")

    def close(self) -> None:
        # It would retry for half a minute if the collector does not answer.
        closing = threading.Thread(target=self._provider.shutdown, name="traces", daemon=True)
        closing.start()
        closing.join(_LAST_SECONDS)


def _share() -> Sampler:
    """Return the sampler, which decides by the trace id, so that all replicas decide alike.

    Raises:
        ConfigError: the configured share is invalid.
    """
    from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

    try:
        return TraceIdRatioBased(float(os.environ.get(_SHARE) or 1))
    except ValueError as error:
        raise ConfigError(
            f"{_SHARE} is no share of traces", fix="give a number from 0 to 1", subject="trace"
        ) from error


_NOTHING: Final = Span()
_tracer: OpenTelemetry | None = None


@contextmanager
def noted_by(tracer: OpenTelemetry) -> Iterator[None]:
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
    """
    return _NOTHING if _tracer is None else _tracer.begin(name, parent, numbers)


@contextmanager
def span(name: str, parent: str = "", **numbers: int) -> Iterator[None]:
    """Record the block as a span, which is this thread's current span meanwhile; see `begun`."""
    found = begun(name, parent, **numbers)
    failed = True
    try:
        with found.current():
            yield
        failed = False
    finally:
        found.end(failed=failed)


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
    found = begun(name)
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
        if _tracer is None or not service.startswith(_PACKAGE):
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


def collector(address: str, *, plaintext: bool = False) -> SplitResult:
    """Return the parts of a collector's address; see `traced`.

    Raises:
        ConfigError: the address is invalid, or may not be called in plaintext.
    """
    parts, host, port = urlsplit(""), None, None
    with suppress(ValueError):
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    more = parts.username or parts.path.strip("/") or parts.query or parts.fragment
    if host is None or port is None or parts.scheme not in ("http", "https") or more:
        raise ConfigError(
            "the collector of traces is no http:// or https:// address with a port",
            fix="give one like http://127.0.0.1:4317; what opens it goes into"
            " OTEL_EXPORTER_OTLP_HEADERS",
            subject="trace",
        )
    if parts.scheme == "http" and not plaintext and not is_loopback(host):
        raise ConfigError(
            f"refusing to tell {host} in plaintext which calls there were",
            fix="give an https:// address, or one of this machine",
            subject="trace",
        )
    return parts


def exporting(role: str, address: str, *, plaintext: bool) -> OpenTelemetry:
    """Return a tracer that sends spans to the collector at ``address``; see `traced`.

    Raises:
        ConfigError: see `collector`.
        ModuleNotFoundError: OpenTelemetry is not installed.
    """
    parts = collector(address, plaintext=plaintext)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # A proxy in the environment is for servers outside.
    direct = (("grpc.enable_http_proxy", 0),) if is_loopback(parts.hostname or "") else ()
    exporter = OTLPSpanExporter(parts.netloc, parts.scheme == "http", channel_options=direct)
    return OpenTelemetry(role, BatchSpanProcessor(exporter))


@contextmanager
def traced(role: str, address: str, *, plaintext: bool = False) -> Iterator[None]:
    """Send this process's spans to an OpenTelemetry collector while the block lasts.

    Args:
        address: ``http://HOST:PORT`` or ``https://HOST:PORT`` of an OTLP collector over gRPC; ""
            for no tracing.
        plaintext: whether it may be ``http://`` beyond this machine.

    Raises:
        ConfigError: the address is invalid, or OpenTelemetry is not installed.
    """
    if not address:
        yield
        return
    try:
        tracer = exporting(role, address, plaintext=plaintext)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"tracing needs {error.name}, which is not installed",
            fix="pip install 'sottovoce-edge[trace]' on a device, 'sottovoce-cloud[trace]' "
            "elsewhere, or turn tracing off",
            subject="trace",
        ) from error
    with noted_by(tracer):
        yield


LOG_FORMATS: Final = ("text", "json")
_OURS: Final = "sottovoce"


class _Sentences(logging.Formatter):
    """Formats log lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        said = record.getMessage() if _is_ours(record) else f"{record.name} at {_place(record)}"
        if record.exc_info and record.exc_info[1] is not None:
            said += f": {kind_and_place(record.exc_info[1])}"
        told = {"msg": said, "args": (), "exc_info": None, "exc_text": None, "stack_info": None}
        return super().format(logging.makeLogRecord(vars(record) | told))


class _Lines(logging.Formatter):
    """Formats one JSON object a line."""

    def __init__(self, role: str) -> None:
        super().__init__()
        self._role = role

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": when.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "role": self._role,
            "pid": os.getpid(),
            "logger": record.name,
        }
        if _is_ours(record):
            line |= {"message": record.getMessage(), "event": str(record.msg)}
        else:
            line["place"] = _place(record)
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = kind_and_place(record.exc_info[1])
        return json.dumps(line)


def configure_logs(form: str, role: str, before: str = "") -> None:
    """Set up logging from INFO on, to standard error.

    Args:
        form: one of `LOG_FORMATS`.
        role: the process's role, as in its metrics.
        before: a prefix for each sentence, in `logging.Formatter`'s format.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Lines(role) if form == "json" else _Sentences(f"{before}%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _is_ours(record: logging.LogRecord) -> bool:
    return record.name.partition(".")[0] == _OURS


def _place(record: logging.LogRecord) -> str:
    return f"{record.module}:{record.lineno}"
