"""The schema on a PostgreSQL server, translated from the SQLite versions.

SQLite's declarations are translated, so each table is described once. A separate table holds the
version number. The first process upgrades the schema, and the others wait.
"""

from __future__ import annotations

import re
from typing import Any, Final

import psycopg

from sottovoce.cloud.state.database import Database, Transaction
from sottovoce.cloud.state.migrations import VERSIONS, earlier
from sottovoce.core.errors import ConfigError, DataLoss, NotFound

__all__ = ["in_postgres", "upgrade"]

_UPGRADING: Final = 0x736F74746F  # an arbitrary number for the advisory lock
_WORDS: Final = (
    (r"\bINTEGER PRIMARY KEY AUTOINCREMENT\b", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    (r"\bINTEGER\b", "BIGINT"),
    (r"\bREAL\b", "DOUBLE PRECISION"),
    (r"\bBLOB\b", "BYTEA"),
    (r"\) STRICT(, WITHOUT ROWID)?", ")"),
    (r"\bWHERE deleted AND NOT purged\b", "WHERE deleted = 1 AND purged = 0"),
    (r"\bmax\(trained, 1\.0\)", "greatest(trained, 1.0)"),
    (r"\bstrftime\('%s', 'now'\)", "extract(epoch FROM now())"),
)


def in_postgres(declaration: str) -> str:
    """Translate a statement of `VERSIONS` to PostgreSQL.

    Integers become 64 bits and floats double precision, as SQLite's always are.
    """
    for theirs, ours in _WORDS:
        declaration = re.sub(theirs, ours, declaration)
    return declaration


def upgrade(
    connection: psycopg.Connection[Any],
    transaction: Transaction,
    database: Database,
    *,
    create: bool,
) -> None:
    """Upgrade the schema to the current version, completely or not at all.

    Args:
        transaction: on the connection.
        database: the database of the schema.
        create: create a missing schema, and upgrade an earlier version.

    Raises:
        NotFound, NotReady: it is missing, or of an earlier version, and ``create`` is False.
        ConfigError: it is missing, and its folder holds a SQLite file that it would hide.
        DataLoss: it is of a newer version.
    """
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_UPGRADING])
        version = _version(connection)
        if version is None:
            if not create:
                raise NotFound(
                    "the database holds no state of a cloud",
                    fix="give the --store that `sotto-cloud serve` has",
                    subject="store",
                )
            if (database.state / "sottovoce.db").exists():
                raise ConfigError(
                    f"{database.state} holds tenants and jobs already, in sottovoce.db",
                    fix="leave --store out to go on with them, or begin with another --state",
                    subject="store",
                )
            connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
            connection.execute("INSERT INTO schema_version VALUES (0)")
            version = 0
        if version > len(VERSIONS):
            raise DataLoss(
                f"the database's schema is of version {version}, this program knows "
                f"{len(VERSIONS)}",
                fix="run the newer program that has upgraded it",
                subject="store",
            )
        if version < len(VERSIONS) and not create:
            raise earlier(version)
        for following in VERSIONS[version:]:
            connection.execute(in_postgres(following.statements).encode())
            if following.read_files:
                following.read_files(transaction, database)
        if version < len(VERSIONS):
            connection.execute("UPDATE schema_version SET version = %s", [len(VERSIONS)])


def _version(connection: psycopg.Connection[Any]) -> int | None:
    there = connection.execute("SELECT to_regclass('schema_version') IS NOT NULL AS there")
    if not next(iter(there))["there"]:
        return None
    return int(next(iter(connection.execute("SELECT version FROM schema_version")))["version"])
