"""What the cloud asks of its database, whichever it is: transactions, reads, a clock, news.

Why it is here: one machine keeps its state in a file, many share a server. Jobs, tenants and
quotas speak to both through these few calls, in SQL that both understand; what is peculiar to one
of them (its pragmas, its locks, its types) stays in the module that drives it.

A file has one writer at a time, a server has many. So whoever decides by what is in a row locks
that row first, and whoever counts a tenant's rows locks the tenant; a tenant before its jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sottovoce.cloud.state.keys import Keys
from sottovoce.cloud.state.objects import Objects

__all__ = ["Database", "Row", "Transaction", "when"]

Row = Mapping[str, Any]


def when(seconds: float) -> str:
    """A time in seconds since 1970, for people and programs."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class Transaction(Protocol):
    """Statements that are one. Values go by name, ``WHERE id = :id``, never into the text.

    A statement sees what others have committed until then, and what was changed before it here.
    """

    def rows(self, statement: str, **values: object) -> list[Row]:
        """All rows that a query gives, or a change that is ``RETURNING`` some."""
        ...

    def row(self, statement: str, **values: object) -> Row | None:
        """The first of them, or None."""
        ...

    def lock(self, statement: str, **values: object) -> Row | None:
        """The first row of a query of one table, which nobody else then changes or locks until the
        transaction ends. Waits for whoever has it, and gives the row as they left it."""
        ...

    def lock_free(self, statement: str, **values: object) -> list[Row]:
        """The same for all rows of the query, but for those that someone else has locked: they are
        passed over, and the next ones within its LIMIT given in their place."""
        ...

    def change(self, statement: str, **values: object) -> int:
        """How many rows the statement changed."""
        ...

    def now(self) -> float:
        """Seconds since 1970 by the database's clock: the one clock that decides between processes,
        which may run on machines whose own clocks differ."""
        ...

    def announce(self) -> None:
        """Has `Database.news` tell everybody of the change, once it is committed."""
        ...


class Database(Protocol):
    """The state of one cloud, shared by the threads of this process and by other processes.

    Attributes:
        state: a folder of this machine, for what it keeps for itself.
        objects: where adapters, checkpoints and published bundles lie.
        keys: what examples are sealed with.
    """

    state: Path
    objects: Objects
    keys: Keys

    def read(self) -> AbstractContextManager[Transaction]:
        """For queries. They see what is committed: within `write`, nothing of it; they wait for
        no writer, so that no prediction is held up by someone else's upload."""
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """A transaction: all of the block or nothing.

        Raises:
            Unavailable: it cannot be written now (a full disk, another writer that takes long), or
                nobody knows whether it was, as the line broke in the middle of the commit.
        """
        ...

    def news(self) -> int:
        """A number that is another one when anybody has committed what was announced since it was
        last asked for; costs next to nothing, and may differ without reason."""
        ...

    def scrub(self) -> None:
        """Sees to it that what was deleted is nowhere in the database's files either, as far as
        that is in its user's power."""
        ...

    def close(self) -> None:
        """Ends the connections; the object is of no use afterwards."""
        ...
