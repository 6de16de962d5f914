"""A process's logs on standard error, which never hold user text.

This project's own log messages contain no user text. A library's message, or any exception's, may
quote its input. For both, the log shows only where they were raised, not the message.
"""

from __future__ import annotations

import logging

from sottovoce.core.rpc.status import kind_and_place

__all__ = ["Sentences", "is_ours", "place", "to_standard_error"]

_OURS = "sottovoce"


class Sentences(logging.Formatter):
    """Formats log lines for people; the form is a `logging.Formatter` format."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        said = record.getMessage() if is_ours(record) else f"{record.name} at {place(record)}"
        if record.exc_info and record.exc_info[1] is not None:
            said += f": {kind_and_place(record.exc_info[1])}"
        told = {"msg": said, "args": (), "exc_info": None, "exc_text": None, "stack_info": None}
        return super().format(logging.makeLogRecord(vars(record) | told))


def is_ours(record: logging.LogRecord) -> bool:
    """Return whether a module of this project logged the record."""
    return record.name.partition(".")[0] == _OURS


def place(record: logging.LogRecord) -> str:
    """Return where the record was logged: MODULE:LINE."""
    return f"{record.module}:{record.lineno}"


def to_standard_error(formatter: logging.Formatter) -> None:
    """Log from INFO on to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
