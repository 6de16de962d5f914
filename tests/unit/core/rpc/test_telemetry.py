"""A call is one trace of numbers, and a log line holds no user's text."""

from __future__ import annotations

import inspect
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from sottovoce.core.errors import ConfigError, NotFound
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.error_status import ErrorInterceptor
from sottovoce.core.rpc.telemetry import HEADER, Traced, traced


@dataclass
class Noted:
    """A span, and a parent by its number."""

    number: int
    name: str
    parent: str
    numbers: dict[str, int]
    tracer: Notes
    failed: bool | None = None

    @contextmanager
    def current(self) -> Iterator[None]:
        self.tracer.stack.append(self.number)
        try:
            yield
        finally:
            self.tracer.stack.pop()

    def end(self, *, failed: bool = False, **numbers: int) -> None:
        assert self.failed is None, "ended twice"
        self.failed = failed
        self.numbers |= numbers


@dataclass
class Notes:
    """A tracer with one current span a thread."""

    spans: list[Noted] = field(default_factory=list)
    stacks: dict[int, list[int]] = field(default_factory=dict)
    closed: bool = False

    @property
    def stack(self) -> list[int]:
        return self.stacks.setdefault(threading.get_ident(), [])

    def begin(self, name: str, parent: str, numbers: dict[str, int]) -> Noted:
        made = Noted(len(self.spans), name, parent or self.here(), numbers, self)
        self.spans.append(made)
        return made

    def here(self) -> str:
        return str(self.stack[-1]) if self.stack else ""

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def notes() -> Iterator[Notes]:
    notes = Notes()
    with telemetry.noted_by(notes):
        yield notes
    assert notes.closed
    assert not any(notes.stacks.values())


SEEN: list[str] = []


def once(request: bytes, context: grpc.ServicerContext) -> bytes:
    SEEN.append(telemetry.here())
    if request == b"fail":
        raise NotFound("there is none")
    return request


def many(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for _ in range(3):
        SEEN.append(telemetry.here())
        yield request


@contextmanager
def served(service: str = "sottovoce.v1.Test", **options: bool) -> Iterator[grpc.Channel]:
    SEEN.clear()
    methods: dict[str, Any] = {
        "Once": grpc.unary_unary_rpc_method_handler(once),
        "Many": grpc.unary_stream_rpc_method_handler(many),
    }
    with ThreadPoolExecutor(1) as calls:
        server = grpc.server(calls, interceptors=[Traced(**options), ErrorInterceptor()])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
        server.stop(0).wait()


def test_a_call_is_a_part_of_its_callers_span(notes: Notes) -> None:
    with served() as channel, telemetry.span("caller", texts=2):
        told = telemetry.metadata()
        assert told == ((HEADER, "0"),)
        channel.unary_unary("/sottovoce.v1.Test/Once")(b"", metadata=told)
        channel.unary_unary("/sottovoce.v1.Test/Once")(b"")
    caller, inner, alone = notes.spans
    assert (caller.name, caller.parent, caller.numbers) == ("caller", "", {"texts": 2})
    assert (inner.name, inner.parent) == ("sottovoce.v1.Test/Once", "0")
    assert SEEN[0] == "1", "what it does is a part of it"
    assert (alone.name, alone.parent) == (inner.name, "")
    assert {each.failed for each in notes.spans} == {False}


def test_a_stream_is_current_while_it_is_worked_on_and_not_between(notes: Notes) -> None:
    with served() as channel:
        parent = ((HEADER, "of the caller"),)
        answers = channel.unary_stream("/sottovoce.v1.Test/Many")(b"", metadata=parent)
        assert len(list(answers)) == 3
    (span,) = notes.spans
    assert SEEN == ["0"] * 3
    assert (span.parent, span.numbers, span.failed) == ("of the caller", {"answers": 3}, False)


def test_what_a_caller_of_an_agent_sends_goes_on_to_nobody(notes: Notes) -> None:
    with served(callers=False) as channel:
        said = ((HEADER, "my PIN is 4711"),)
        channel.unary_unary("/sottovoce.v1.Test/Once")(b"", metadata=said)
        list(channel.unary_stream("/sottovoce.v1.Test/Many")(b"", metadata=said))
    assert [each.parent for each in notes.spans] == ["", ""]


def test_what_fails_is_told_by_number(notes: Notes) -> None:
    with served() as channel, pytest.raises(grpc.RpcError):
        channel.unary_unary("/sottovoce.v1.Test/Once")(b"fail")
    (span,) = notes.spans
    assert (span.failed, span.numbers) == (True, {"status": grpc.StatusCode.NOT_FOUND.value[0]})


def test_services_that_are_not_ours_make_none(notes: Notes) -> None:
    with served("grpc.health.v1.Health") as channel:
        channel.unary_unary("/grpc.health.v1.Health/Once")(b"")
    assert notes.spans == []


def test_a_block_that_yields_lends_its_id_and_is_nobodys_current_one(notes: Notes) -> None:
    def stream() -> Iterator[tuple[tuple[str, str], ...]]:
        with telemetry.streamed("stream") as told:
            yield told
            yield told

    with telemetry.span("caller"):
        left = stream()
        assert next(left) == ((HEADER, "1"),)
        assert telemetry.here() == "0"
        left.close()
        list(stream())
    assert [(each.parent, each.failed) for each in notes.spans[1:]] == [("0", False)] * 2


def test_a_span_that_something_ends_failed(notes: Notes) -> None:
    with pytest.raises(KeyError), telemetry.span("outer"):
        raise KeyError
    assert notes.spans[0].failed


def test_off_there_is_nothing() -> None:
    with (
        served() as channel,
        telemetry.span("caller", texts=1),
        telemetry.streamed("stream") as told,
    ):
        assert (telemetry.metadata(), telemetry.here(), told) == ((), "", ())
        channel.unary_unary("/sottovoce.v1.Test/Once")(b"", metadata=((HEADER, "00-ab-cd-01"),))
    assert SEEN == [""], "nor is what a caller sends kept"
    with traced("agent", ""):
        assert telemetry.here() == ""


@pytest.mark.parametrize("call", [telemetry.begun, telemetry.span])
def test_no_argument_takes_a_text_to_note(call: Callable[..., object]) -> None:
    kinds = {name: p.annotation for name, p in inspect.signature(call).parameters.items()}
    assert kinds == {"name": "str", "parent": "str", "numbers": "int"}


def test_without_what_it_needs_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "opentelemetry":
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with (
        pytest.raises(ConfigError, match="not installed") as caught,
        traced("agent", "http://127.0.0.1:4317"),
    ):
        pass
    assert "sottovoce-edge[trace]" in caught.value.fix


Configure = Callable[..., None]


@pytest.fixture
def configure() -> Iterator[Configure]:
    """Has the root logger be as in a fresh process first; it is as it was afterwards."""
    logger = logging.getLogger()
    level, kept = logger.level, logger.handlers

    def fresh(*arguments: str) -> None:
        logger.handlers = []  # pytest's own are there only while a test runs
        telemetry.configure_logs(*arguments)

    yield fresh
    logger.handlers = kept
    logger.setLevel(level)


@pytest.fixture
def said(configure: Configure, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the line of a record with an exception that was caught, or none."""

    def line(name: str, message: str, *arguments: object, error: Exception | None = None) -> str:
        configure("text", "agent", "%(levelname)s %(name)s: ")
        caught = (type(error), error, None) if error else None
        record = logging.LogRecord(name, logging.ERROR, "/x/here.py", 7, message, arguments, caught)
        logging.getLogger(name).handle(record)
        return capsys.readouterr().err.removesuffix("\n")

    return line


def test_a_line_is_an_object_that_says_which_kind_it_is(
    configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("json", "trainer")
    logging.getLogger("sottovoce.cloud.training.worker").warning("job %s: %d examples", "5f", 24)
    logging.getLogger("sottovoce.cloud").debug("not this")
    (line,) = capsys.readouterr().err.splitlines()
    told = json.loads(line)
    assert told["time"].endswith("Z")
    assert told["pid"] > 0
    assert {name: told[name] for name in told.keys() - {"time", "pid"}} == {
        "level": "warning",
        "role": "trainer",
        "logger": "sottovoce.cloud.training.worker",
        "message": "job 5f: 24 examples",
        "event": "job %s: %d examples",
    }


def test_what_a_library_says_is_not_quoted(
    configure: Configure, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("json", "front")
    try:
        raise ValueError("cannot parse: canary text")
    except ValueError:
        logging.getLogger("grpc._server").exception("Exception calling: %s", "canary text")
        logging.getLogger("sottovoce.cloud").error("unexpected", exc_info=True)
    said = capsys.readouterr().err
    assert "canary" not in said
    library, ours = map(json.loads, said.splitlines())
    assert library["place"].startswith("test_telemetry:")
    assert library["error"].startswith("ValueError at ")
    assert ours["error"] == library["error"]
    assert "\n" not in said.splitlines()[0]


def test_people_read_sentences(configure: Configure, capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "trainer", "worker: ")
    logging.getLogger("sottovoce.cloud").info("job %s", "5f")
    logging.getLogger("grpc._server").error("Exception calling: %s", "canary text")
    ours, library = capsys.readouterr().err.splitlines()
    assert ours == "worker: job 5f"
    assert library.startswith("worker: grpc._server at test_telemetry:")


def test_ours_are_sentences(said: Callable[..., str]) -> None:
    assert said("sottovoce.edge.x", "%d calls", 3) == "ERROR sottovoce.edge.x: 3 calls"


@pytest.mark.parametrize("name", ["asyncio", "grpc._server", "sottovoceish"])
def test_of_a_library_only_the_place_is_told(said: Callable[..., str], name: str) -> None:
    assert said(name, "cannot read %s", "canary") == f"ERROR {name}: {name} at here:7"


@pytest.mark.parametrize("name", ["asyncio", "sottovoce.edge.x"])
def test_no_exception_is_quoted(said: Callable[..., str], name: str) -> None:
    line = said(name, "it failed", error=ValueError("canary"))
    assert "canary" not in line
    assert "ValueError at " in line
    assert "\n" not in line
