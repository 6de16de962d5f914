"""Logs on standard error: sentences for people, or JSON lines for log collectors.

Neither may hold text of tenants, as `sottovoce.core.rpc.logs` explains. A JSON line from a library
holds only its source and level.

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

from sottovoce.core.rpc.logs import Sentences, is_ours, place, to_standard_error
from sottovoce.core.rpc.status import kind_and_place

__all__ = ["FORMATS", "configure"]

FORMATS: Final = ("text", "json")


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
        if is_ours(record):
            line |= {"message": record.getMessage(), "event": str(record.msg)}
        else:
            line["place"] = place(record)
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = kind_and_place(record.exc_info[1])
        return json.dumps(line)


def configure(form: str, role: str, before: str = "") -> None:
    """Set up logging from INFO on, to standard error.

    Args:
        form: one of `FORMATS`.
        role: the process's role, as in its metrics.
        before: a prefix for each sentence.
    """
    to_standard_error(_Lines(role) if form == "json" else Sentences(f"{before}%(message)s"))
