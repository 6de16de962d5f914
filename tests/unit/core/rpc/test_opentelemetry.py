"""OpenTelemetry gets times, numbers and program names, and no text."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk", reason="pip install 'sottovoce-edge[trace]'")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bench.live.testbed import free_address
from sottovoce.core.errors import ConfigError
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.telemetry import OpenTelemetry, exporting, traced
from tests.support.collector import collecting
from tests.support.waiting import until

PARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Return the recorded spans; the environment holds secrets."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=canary")
    exporter = InMemorySpanExporter()
    with telemetry.noted_by(OpenTelemetry("agent", SimpleSpanProcessor(exporter))):
        yield exporter


def only(memory: InMemorySpanExporter) -> ReadableSpan:
    (found,) = memory.get_finished_spans()
    return found


def test_spans_are_of_the_trace_that_the_caller_named(memory: InMemorySpanExporter) -> None:
    with telemetry.span("outer", PARENT), telemetry.span("inner", texts=3):
        here = telemetry.here()
    inner, outer = memory.get_finished_spans()
    assert f"{outer.context.trace_id:032x}" == "ab" * 16
    assert f"{outer.parent.span_id:016x}" == "cd" * 8
    assert inner.parent == outer.context
    assert here == f"00-{'ab' * 16}-{inner.context.span_id:016x}-01"
    assert dict(inner.attributes) == {"texts": 3}
    assert telemetry.here() == ""


def test_no_exception_is_quoted_and_nothing_of_the_environment(
    memory: InMemorySpanExporter,
) -> None:
    with pytest.raises(ValueError, match="canary"), telemetry.span("stage"):
        raise ValueError("canary text")
    span = only(memory)
    assert (span.events, span.status.is_ok, span.status.description) == ((), False, None)
    assert dict(span.resource.attributes) == {"service.name": "sottovoce-agent"}
    assert "canary" not in span.to_json()


@pytest.mark.parametrize("parent", ["canary text", f"00-{'0' * 32}-{'cd' * 8}-01", PARENT + "-x"])
def test_what_is_no_id_is_ignored(memory: InMemorySpanExporter, parent: str) -> None:
    with telemetry.span("stage", parent):
        pass
    assert only(memory).parent is None
    assert "canary" not in only(memory).to_json()


def test_what_is_noted_no_caller_says(
    memory: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    with telemetry.span("stage", PARENT[:-1] + "0"), telemetry.span("part"):
        pass
    assert len(memory.get_finished_spans()) == 2
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    none = InMemorySpanExporter()
    with (
        telemetry.noted_by(OpenTelemetry("front", SimpleSpanProcessor(none))),
        telemetry.span("stage", PARENT),
        telemetry.span("part"),
    ):
        pass
    assert none.get_finished_spans() == ()
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "most")
    with pytest.raises(ConfigError, match="OTEL_TRACES_SAMPLER_ARG"):
        OpenTelemetry("front", SimpleSpanProcessor(none))


def test_a_span_is_given_to_other_threads_by_its_id_alone(memory: InMemorySpanExporter) -> None:
    found = telemetry.begun("stream")
    with found.current():
        told = telemetry.metadata()
    assert telemetry.metadata() == ()
    found.end(answers=2)
    assert told[0][1].split("-")[2] == f"{only(memory).context.span_id:016x}"


def test_a_collector_gets_them_all_by_the_end() -> None:
    with collecting() as collector:
        with traced("trainer", collector.url):
            for _ in range(20):
                with telemetry.span("job", examples=7):
                    pass
        until(lambda: len(collector.spans) == 20)
    assert {(s.role, s.name, tuple(s.numbers.items())) for s in collector.spans} == {
        ("sottovoce-trainer", "job", (("examples", 7),))
    }


def test_no_proxy_hears_what_a_collector_of_this_machine_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("http_proxy", f"http://{free_address()}")
    with collecting() as collector:
        with traced("agent", collector.url), telemetry.span("job"):
            pass
        until(lambda: len(collector.spans) == 1)


def test_the_end_does_not_wait_for_a_collector_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "_LAST_SECONDS", 0.1)
    answers = threading.Event()

    class Silent(SimpleSpanProcessor):
        def shutdown(self) -> None:
            answers.wait()

    tracer = OpenTelemetry("agent", Silent(InMemorySpanExporter()))
    closing = threading.Thread(target=tracer.close)
    closing.start()
    closing.join(60)  # it would be for good
    ended = not closing.is_alive()
    answers.set()
    closing.join()
    assert ended


@pytest.mark.parametrize(
    ("url", "plaintext", "said"),
    [
        ("collector:4317", True, "no http:// or https:// address"),
        ("http://127.0.0.1", True, "no http:// or https:// address"),
        ("http://127.0.0.1:nonsense", True, "no http:// or https:// address"),
        ("https://user:secret@collector:4317", True, "no http:// or https:// address"),
        ("https://collector:4317/traces", True, "no http:// or https:// address"),
        ("http://collector.example.org:4317", False, "in plaintext"),
    ],
)
def test_a_wrong_address_is_refused_by_name(url: str, plaintext: bool, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        exporting("agent", url, plaintext=plaintext)
    assert caught.value.fix
    assert caught.value.subject == "trace"
