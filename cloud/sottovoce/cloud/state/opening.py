"""Opens the database that a `--store` names."""

from __future__ import annotations

from pathlib import Path

from sottovoce.cloud.state.database import Database
from sottovoce.cloud.state.sqlite import SqliteDatabase
from sottovoce.core.errors import ConfigError

__all__ = ["open_database"]


def open_database(state: Path, store: str = "", *, create: bool = True) -> Database:
    """The state of a cloud.

    Args:
        state: the folder of its files.
        store: ``postgresql://...``; "" for a SQLite file in the folder.
        create: begin one if there is none.

    Raises:
        ConfigError: ``store`` is neither, or what speaks to PostgreSQL is not installed.
        SottovoceError: see `SqliteDatabase` and `PostgresDatabase`.
    """
    if not store:
        return SqliteDatabase(state, create=create)
    if not store.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            "--store is no URL of a database",  # which may hold a password: not quoted
            fix="give one like postgresql://user@host/database, or none for a file in --state",
            subject="store",
        )
    try:
        from sottovoce.cloud.state.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--store needs {error.name}, which is not installed",
            fix="pip install 'sottovoce-cloud[scale]'",
            subject="store",
        ) from error
    return PostgresDatabase(store, state, create=create)
