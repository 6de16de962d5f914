"""People and programs can read a log line, and it holds no user's text."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator

import pytest

from sottovoce.core.rpc import telemetry

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
    assert library["place"].startswith("test_logs:")
    assert library["error"].startswith("ValueError at ")
    assert ours["error"] == library["error"]
    assert "\n" not in said.splitlines()[0]


def test_people_read_sentences(configure: Configure, capsys: pytest.CaptureFixture[str]) -> None:
    configure("text", "trainer", "worker: ")
    logging.getLogger("sottovoce.cloud").info("job %s", "5f")
    logging.getLogger("grpc._server").error("Exception calling: %s", "canary text")
    ours, library = capsys.readouterr().err.splitlines()
    assert ours == "worker: job 5f"
    assert library.startswith("worker: grpc._server at test_logs:")


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
