"""Logs on standard error, which never hold text: sentences for people, or JSON lines.

This project's own log messages contain no text of users or tenants. A library's message, or any
exception's, may quote its input. For both, the log shows only where they were raised, not the
message. A JSON line from a library holds only its source and level.

    {"time": "2026-11-23T03:00:00.123Z", "level": "info", "role": "trainer", "pid": 7,
     "logger": "sottovoce.cloud.training.worker", "message": "job 5f0c: 24 examples",
     "event": "job %s: %d examples"}

``event`` is the same for all lines of a kind, so that they can be counted.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any, Final

from sottovoce.core.rpc.error_status import kind_and_place

__all__ = ["FORMATS", "configure"]

FORMATS: Final = ("text", "json")
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


def configure(form: str, role: str, before: str = "") -> None:
    """Set up logging from INFO on, to standard error.

    Args:
        form: one of `FORMATS`.
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
