"""The ledger: how much privacy loss was spent on this device, and the owner's limit on it.

Why it is here: d_X-privacy composes by adding eta, so many small releases add up. The ledger
charges what a release says of itself, never what a caller claims, and it does so inside the very
transaction that remembers the release.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from sottovoce.core.errors import QuotaExceeded
from sottovoce.edge.state.database import Store

__all__ = ["Ledger", "Spending"]


@dataclass(frozen=True, slots=True)
class Spending:
    """Sum of eta over protected words, and over how many releases."""

    spent: float
    releases: int


class Ledger:
    """Charges releases against `limit`, the permitted sum of eta; 0 permits any sum."""

    def __init__(self, store: Store, limit: float) -> None:
        self._store = store
        self.limit = limit

    def charge(self, transaction: sqlite3.Connection, amount: float, releases: int) -> None:
        """Adds `amount` for so many new releases, as part of the caller's transaction.

        Raises:
            QuotaExceeded: the limit would be passed (subject "ledger"); nothing is charged.
        """
        (spent,) = transaction.execute("SELECT spent FROM ledger").fetchone()
        if self.limit and spent + amount > self.limit:
            raise QuotaExceeded(
                f"the privacy ledger is spent: {spent:.6g} of {self.limit:.6g}, "
                f"and this needs {amount:.6g} more",
                fix="raise privacy.ledger_limit, or release less",
                subject="ledger",
            )
        transaction.execute(
            "UPDATE ledger SET spent = spent + ?, releases = releases + ?", (amount, releases)
        )

    def spending(self) -> Spending:
        """What was spent so far."""
        ((spent, releases),) = self._store.rows("SELECT spent, releases FROM ledger")
        return Spending(spent, releases)
