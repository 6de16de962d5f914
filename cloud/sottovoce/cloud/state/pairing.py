"""That a database and its objects belong together.

Why it is here: what is to be deleted may be gone already, so whoever looks for it in the wrong
folder finds nothing, removes nothing, and would call it done. So each knows the other by an id.
"""

from __future__ import annotations

import secrets
from typing import Final

from sottovoce.cloud.state.database import Database

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
        with database.write() as transaction:  # others wait here, who may have other objects
            row = transaction.lock("SELECT id FROM objects")
            if row is not None and row["id"].startswith(_DRAWN):
                row = {"id": row["id"].removeprefix(_DRAWN)}
                database.objects.bind(row["id"], take=True)
                transaction.change("UPDATE objects SET id = :id", id=row["id"])
    if row is not None and not row["id"].startswith(_DRAWN):
        database.objects.bind(row["id"])
