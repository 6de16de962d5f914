"""The interface to either database: transactions, reads, a clock and news.

One machine keeps its state in a file; several machines share a server. All other code uses both
through these few methods, in SQL that both understand. Each driver module handles its own pragmas,
locks and types.

A file has one writer at a time, a server has many. So code that decides by a row locks the row
first. Code that counts a tenant's rows locks the tenant first, and the tenant before its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sottovoce.cloud.store.keys import Keys
from sottovoce.cloud.store.objects import Objects

__all__ = ["Database", "Row", "Transaction", "when"]

Row = Mapping[str, Any]


def when(seconds: float) -> str:
    """Format a time in seconds since 1970, for people and programs."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class Transaction(Protocol):
    """A set of statements that commit together.

    Values go by name, ``WHERE id = :id``, never into the text.

    A statement sees all earlier commits, and earlier changes of this transaction.
    """

    def rows(self, statement: str, **values: object) -> list[Row]:
        """Return all rows of a query, or of a change with ``RETURNING``."""
        ...

    def row(self, statement: str, **values: object) -> Row | None:
        """Return the first row, or None."""
        ...

    def lock(self, statement: str, **values: object) -> Row | None:
        """Return and lock the first row of a query on one table until the transaction ends.

        Waits for another holder of the lock, and then returns the row as that holder left it.
        """
        ...

    def lock_free(self, statement: str, **values: object) -> list[Row]:
        """Return and lock all rows of the query, skipping rows that others have locked.

        The query's LIMIT counts only unlocked rows.
        """
        ...

    def change(self, statement: str, **values: object) -> int:
        """Return how many rows the statement changed."""
        ...

    def now(self) -> float:
        """Return the database's time in seconds since 1970.

        Processes compare times by this clock alone, because their machines' clocks may differ.
        """
        ...

    def announce(self) -> None:
        """Announce the change to all processes through `Database.news`, once it is committed."""
        ...


class Database(Protocol):
    """The state of one cloud, shared by the threads of this process and by other processes.

    Attributes:
        state: a folder for files of this machine.
        objects: stores adapters, checkpoints and published bundles.
        keys: encrypts examples.
        lost: called when the files in the folder are no longer those in use; should end the
            process.
    """

    state: Path
    objects: Objects
    keys: Keys
    lost: Callable[[], None]

    def read(self) -> AbstractContextManager[Transaction]:
        """Begin a read of committed data.

        Inside a `write` block it does not see that block's changes. It waits for no writer, so that
        uploads never delay predictions.
        """
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction: the whole block is committed, or nothing.

        Raises:
            Unavailable: the database cannot be written now (a full disk, a slow writer), or the
                connection broke during the commit, so that the outcome is unknown.
        """
        ...

    def news(self) -> int:
        """Return a number that changes after any process commits an announced change.

        The call costs next to nothing, and the number may change without reason.
        """
        ...

    def scrub(self) -> None:
        """Erase deleted data from the database's files, as far as its user can."""
        ...

    def close(self) -> None:
        """Close the connections; the object cannot be used afterwards."""
        ...
