"""The ledger's one row, and the code that says it is as the agent wrote it.

Why it is here: a bit that flips among a row's numbers leaves a database that SQLite finds sound,
and would be a sum that nobody spent. So the row carries a keyed hash of its figures, written with
every charge. Who holds the key, or brings back an older database whole, is not stopped by it.
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
"""All of it."""


def sign(transaction: sqlite3.Connection, seal: Seal) -> None:
    """Has the row vouch for the figures that are in it now."""
    for *row, _ in transaction.execute(ROW).fetchall():
        transaction.execute("UPDATE ledger SET mac = ?", (_mac(seal, row),))


def figures(rows: Iterable[Sequence[Any]], seal: Seal) -> list[Any]:
    """The figures in what `ROW` selects.

    Raises:
        DataLoss: they are not those that were written, or are gone.
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
