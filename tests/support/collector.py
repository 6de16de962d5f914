"""A collector of OpenTelemetry's: takes spans over OTLP, as those do that providers run."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc


@dataclass(frozen=True)
class Collected:
    """A span as it came; ids in hexadecimal."""

    role: str
    name: str
    trace: str
    id: str
    parent: str
    numbers: dict[str, int]


@dataclass
class Collector:
    """The spans received so far: ``url`` of the collector, ``raw`` messages."""

    url: str = ""
    spans: list[Collected] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    def take(self, request: Any) -> None:
        """Notes a message."""
        self.raw.append(request.SerializeToString())
        for of_process in request.resource_spans:
            (role,) = (a.value.string_value for a in of_process.resource.attributes)
            for span in (s for scope in of_process.scope_spans for s in scope.spans):
                assert not span.events
                assert not span.links
                assert not span.trace_state
                numbers = {}
                for attribute in span.attributes:
                    assert attribute.value.WhichOneof("value") == "int_value", attribute.key
                    numbers[attribute.key] = attribute.value.int_value
                self.spans.append(
                    Collected(
                        role,
                        span.name,
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        numbers,
                    )
                )


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector for as long as the block."""
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire
    from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as services

    found = Collector()

    class Service(services.TraceServiceServicer):  # type: ignore[misc, name-defined]
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the wire's name
            found.take(request)
            return wire.ExportTraceServiceResponse()

    with ThreadPoolExecutor(2) as threads:
        server = grpc.server(threads)
        services.add_TraceServiceServicer_to_server(Service(), server)
        found.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield found
        finally:
            server.stop(0).wait()
