"""Daily sums of what the ledger was charged, by purpose.

A sum over the whole life of a device does not show which habit is expensive. The owner chooses the
names of adapters, so these names are sealed. A caller can use any number of names, so their number
is bounded.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sottovoce.edge.state.database import Store
from sottovoce.edge.state.purpose import KINDS, Purpose

__all__ = ["DAYS", "DAY_SECONDS", "LONGEST_NAME", "MOST_NAMES", "Account", "Accounts"]

DAYS: Final = 30
"""Days that are kept, and reported one by one."""
MOST_NAMES: Final = 256
"""Accounts a day; further charges go to their kind, without a name."""
LONGEST_NAME: Final = 128
DAY_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class Account:
    """The sum of eta and the number of releases of one account on one day.

    Attributes:
        day: in days since 1970.
        purpose: the account's purpose.
        spent: the sum of eta.
        releases: the number of releases.
    """

    day: int
    purpose: Purpose
    spent: float
    releases: int


class Accounts:
    """Accounts in the agent's database; ``clock`` returns seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock

    @property
    def today(self) -> int:
        """Today in UTC, as days since 1970."""
        return int(self._clock() // DAY_SECONDS)

    def add(
        self, transaction: sqlite3.Connection, purpose: Purpose, spent: float, releases: int
    ) -> None:
        """Add to one of today's accounts, as part of the caller's transaction."""
        purpose = Purpose(purpose.kind, purpose.name[:LONGEST_NAME])
        self._add(transaction, self.today, purpose, spent, releases)

    def forget(self, name: str) -> None:
        """Move all charges under a name to the nameless accounts of their kinds."""
        with self._store.transaction() as transaction:
            for kind in KINDS:
                named = self._name(Purpose(kind, name[:LONGEST_NAME]))
                sums = transaction.execute(
                    "DELETE FROM accounts WHERE name = ? RETURNING day, spent, releases", (named,)
                ).fetchall()
                for day, spent, releases in sums:
                    self._add(transaction, day, Purpose(kind), spent, releases)

    def _add(
        self,
        transaction: sqlite3.Connection,
        day: int,
        purpose: Purpose,
        spent: float,
        releases: int,
    ) -> None:
        if self._added(transaction, day, purpose, spent, releases):
            return
        (known,) = transaction.execute(
            "SELECT COUNT(*) FROM accounts WHERE day = ?", (day,)
        ).fetchone()
        if known >= MOST_NAMES and purpose.name:
            self._add(transaction, day, Purpose(purpose.kind), spent, releases)
            return
        if not known:
            transaction.execute("DELETE FROM accounts WHERE day <= ?", (day - DAYS,))
        name = self._name(purpose)
        sealed = self._store.seal.seal("\n".join(purpose).encode(), b"account" + name)
        transaction.execute(
            "INSERT INTO accounts VALUES (?, ?, ?, ?, ?)", (day, name, sealed, spent, releases)
        )

    def since(self, day: int) -> list[Account]:
        """Return all accounts from a day on, the newest first.

        Raises:
            DataLoss: the accounts were altered.
        """
        found = self._store.rows(
            "SELECT day, name, sealed, spent, releases FROM accounts WHERE day >= ?"
            " ORDER BY day DESC, spent DESC",
            day,
        )
        return [
            Account(day, self._purpose(name, sealed), spent, releases)
            for day, name, sealed, spent, releases in found
        ]

    def _added(
        self,
        transaction: sqlite3.Connection,
        day: int,
        purpose: Purpose,
        spent: float,
        releases: int,
    ) -> bool:
        done = transaction.execute(
            "UPDATE accounts SET spent = spent + ?, releases = releases + ?"
            " WHERE day = ? AND name = ?",
            (spent, releases, day, self._name(purpose)),
        )
        return bool(done.rowcount)

    def _name(self, purpose: Purpose) -> bytes:
        return self._store.seal.name(b"account", *(part.encode() for part in purpose))

    def _purpose(self, name: bytes, sealed: bytes) -> Purpose:
        kind, _, told = self._store.seal.unseal(sealed, b"account" + name).decode().partition("\n")
        return Purpose(kind, told)
