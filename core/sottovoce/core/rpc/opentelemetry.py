"""OpenTelemetry spans, sent to a collector.

Only this module imports OpenTelemetry, and only if tracing is on and the extra ``trace`` is
installed. Two things that OpenTelemetry would add by itself stay out: messages and tracebacks of
exceptions, which may quote text, and attributes from the environment. From a caller only
``traceparent`` is read, which holds ids. ``tracestate`` and baggage are ignored, because they hold
whatever the caller likes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc import tracing
from sottovoce.core.rpc.address import is_loopback

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.sdk.trace.sampling import Sampler
    from opentelemetry.trace import Span

__all__ = ["OpenTelemetry", "collector", "exporting", "traced"]

_SHARE: Final = "OTEL_TRACES_SAMPLER_ARG"
_LAST_SECONDS: Final = 3.0
"""The most seconds to send the last spans at the end of the process."""


class _Span:
    def __init__(self, span: Span) -> None:
        self._span = span

    @contextmanager
    def current(self) -> Iterator[None]:
        from opentelemetry.trace import use_span

        with use_span(self._span, record_exception=False, set_status_on_exception=False):
            yield

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_attributes(numbers)
        if failed:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class OpenTelemetry:
    """Implements `tracing.Tracer`.

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

    def begin(self, name: str, parent: str, numbers: dict[str, int]) -> tracing.Span:
        context = self._headers.extract({tracing.HEADER: parent}) if parent else None
        return _Span(self._tracer.start_span(name, context, attributes=numbers))

    def here(self) -> str:
        carrier: dict[str, str] = {}
        self._headers.inject(carrier)
        return carrier.get(tracing.HEADER, "")

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
        role: the kind of process.
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
    with tracing.noted_by(tracer):
        yield
