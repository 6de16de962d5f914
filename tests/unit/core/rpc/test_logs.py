"""What people read of a process quotes nobody."""

from __future__ import annotations

import logging

import pytest

from sottovoce.core.rpc.logs import Sentences


def said(name: str, message: str, *arguments: object, error: Exception | None = None) -> str:
    """The line of a record with an exception that was caught, or none."""
    caught = (type(error), error, None) if error else None
    record = logging.LogRecord(name, logging.ERROR, "/x/here.py", 7, message, arguments, caught)
    return Sentences("%(levelname)s %(name)s: %(message)s").format(record)


def test_ours_are_sentences() -> None:
    assert said("sottovoce.edge.x", "%d calls", 3) == "ERROR sottovoce.edge.x: 3 calls"


@pytest.mark.parametrize("name", ["asyncio", "grpc._server", "sottovoceish"])
def test_of_a_library_only_the_place_is_told(name: str) -> None:
    assert said(name, "cannot read %s", "canary") == f"ERROR {name}: {name} at here:7"


@pytest.mark.parametrize("name", ["asyncio", "sottovoce.edge.x"])
def test_no_exception_is_quoted(name: str) -> None:
    line = said(name, "it failed", error=ValueError("canary"))
    assert "canary" not in line
    assert "ValueError at " in line
    assert "\n" not in line
