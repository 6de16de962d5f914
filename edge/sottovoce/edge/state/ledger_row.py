"""The ledger's single row, and its message authentication code.

SQLite does not notice a flipped bit in a number, and the ledger would then show a wrong sum. So the
row carries a keyed hash of its figures, written with every charge. The hash does not stop an
attacker with the key, or the return of a whole older database.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from sottovoce.core.errors import DataLoss
from sottovoce.edge.state.sealing import AFRESH, Seal

__all__ = ["ROW", "figures", "sign"]

ROW = (
    "SELECT spent, releases, label_epsilon, labels_randomized, labels_as_they_are,"
    " adapters_private, adapter_epsilon, adapter_delta, mac FROM ledger"
)
"""Selects the whole row."""


def sign(transaction: sqlite3.Connection, seal: Seal) -> None:
    """Write the keyed hash of the row's current figures."""
    for *row, _ in transaction.execute(ROW).fetchall():
        transaction.execute("UPDATE ledger SET mac = ?", (_mac(seal, row),))


def figures(rows: Iterable[Sequence[Any]], seal: Seal) -> list[Any]:
    """Return the figures in the result of `ROW`.

    Raises:
        DataLoss: the figures were altered, or the row is missing.
    """
    for *row, mac in rows:
        if mac == _mac(seal, row):
            return row
    raise DataLoss(
        "the privacy ledger in the agent's database was altered",
        fix="bring the database and its key back from the same backup, or move their folder "
        f"away to start afresh; {AFRESH}",
        subject="ledger",
    )


def _mac(seal: Seal, row: list[float]) -> bytes:
    return seal.name(b"ledger", *(repr(figure).encode() for figure in row))
