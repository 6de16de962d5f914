"""What a process says on standard error, none of which may hold text.

Why it is here: our own sentences never do. Of what a library logs nobody can say, as it may quote
what it choked on, and so may any exception; so of both is said where it was, and not what.
"""

from __future__ import annotations

import logging

from sottovoce.core.wire.status import kind_and_place

__all__ = ["Sentences", "is_ours", "place", "to_standard_error"]

_OURS = "sottovoce"


class Sentences(logging.Formatter):
    """Lines for people, by a form as `logging.Formatter` takes it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        said = record.getMessage() if is_ours(record) else f"{record.name} at {place(record)}"
        if record.exc_info and record.exc_info[1] is not None:
            said += f": {kind_and_place(record.exc_info[1])}"
        told = {"msg": said, "args": (), "exc_info": None, "exc_text": None, "stack_info": None}
        return super().format(logging.makeLogRecord(vars(record) | told))


def is_ours(record: logging.LogRecord) -> bool:
    """Whether it was logged by a module of this project."""
    return record.name.partition(".")[0] == _OURS


def place(record: logging.LogRecord) -> str:
    """Where it was logged: MODULE:LINE."""
    return f"{record.module}:{record.lineno}"


def to_standard_error(formatter: logging.Formatter) -> None:
    """Has this process log from INFO on, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
