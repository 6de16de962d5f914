"""That a database and its objects belong together.

Why it is here: what is to be deleted may be gone already, so whoever looks for it in the wrong
folder finds nothing, removes nothing, and would call it done. So each knows the other by an id.
"""

from __future__ import annotations

from sottovoce.cloud.state.database import Database
from sottovoce.core.errors import ConfigError

__all__ = ["check_objects"]


def check_objects(database: Database, *, bind: bool = True) -> None:
    """Whether the objects are this database's.

    Args:
        bind: have them be, where neither has another yet.

    Raises:
        ConfigError: they are another's, or another place's are.
        Unavailable: the disk is full.
    """
    with database.read() as transaction:
        row = transaction.row("SELECT id FROM objects")
    if row is None and bind:
        with database.write() as transaction:
            if transaction.change(
                "INSERT INTO objects (one, id) VALUES (1, '') ON CONFLICT (one) DO NOTHING"
            ):
                transaction.change("UPDATE objects SET id = :id", id=database.objects.take())
            row = transaction.row("SELECT id FROM objects")
    if row is not None and row["id"] != database.objects.taken():
        raise ConfigError(
            "this is not where the cloud's checkpoints and adapters lie",
            fix="give the --objects that its other processes have, or none if they have none and "
            "share --state",
            subject="objects",
        )
