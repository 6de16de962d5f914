"""Check that a database and its objects belong together.

An object to be deleted may be gone already. So a process that looks in the wrong folder would find
nothing, delete nothing and report success. To prevent this, database and objects each store the
other's id.
"""

from __future__ import annotations

import secrets
from typing import Final

from sottovoce.cloud.state.database import Database, Row

__all__ = ["check_objects"]

_DRAWN: Final = "drawn "
"""Prefix of an id in the database until the objects store it.

If the process dies in between, the next process is not refused.
"""


def check_objects(database: Database, *, bind: bool = True) -> None:
    """Check that the objects belong to this database; see `Objects.bind`.

    Args:
        bind: bind them if both are still unbound.

    Raises:
        ConfigError: one of the two is bound to another partner.
        Unavailable: the disk is full, or they cannot be reached.
    """
    with database.read() as transaction:
        row = transaction.row("SELECT id FROM objects")
    if bind and (row is None or row["id"].startswith(_DRAWN)):
        with database.write() as transaction:
            transaction.change(
                "INSERT INTO objects (one, id) VALUES (1, :id) ON CONFLICT (one) DO NOTHING",
                id=_DRAWN + secrets.token_hex(16),
            )
        row = _take(database)
    if row is not None and not row["id"].startswith(_DRAWN):
        database.objects.bind(row["id"])


def _take(database: Database) -> Row | None:
    """Bind the objects, and write their id to the database.

    If another process was first, perhaps with other objects, leave these unbound. The objects are
    accessed outside of transactions, because that may take a minute.
    """
    with database.read() as transaction:
        row = transaction.row("SELECT id FROM objects")
    if row is None or not row["id"].startswith(_DRAWN):
        return row
    taken = database.objects.bind(row["id"].removeprefix(_DRAWN), take=True)
    with database.write() as transaction:
        transaction.change(
            "UPDATE objects SET id = :taken WHERE id = :drawn", taken=taken, drawn=row["id"]
        )
        row = transaction.row("SELECT id FROM objects")
    if row is not None and row["id"] != taken:
        database.objects.leave()
    return row
