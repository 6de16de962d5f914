"""That a database and its objects belong together.

Why it is here: what is to be deleted may be gone already, so whoever looks for it in the wrong
folder finds nothing, removes nothing, and would call it done. So each knows the other by an id.
"""

from __future__ import annotations

import secrets
from typing import Final

from sottovoce.cloud.state.database import Database, Row

__all__ = ["check_objects"]

_DRAWN: Final = "drawn "
"""What an id in the database begins with until the objects have it: whoever dies in between leaves
nothing that the next would be refused for."""


def check_objects(database: Database, *, bind: bool = True) -> None:
    """Whether the objects are this database's; see `Objects.bind`.

    Args:
        bind: have them be, where neither has another yet.

    Raises:
        ConfigError: they are another's, or another place's are.
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
    """Who takes objects has their id written down, unless another was first, who may have others:
    these are left then. They are asked outside of transactions, as they may take a minute."""
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
