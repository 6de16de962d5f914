"""Database, objects and keys, and the records in them; imports no torch.

Opens the database of a `--store` and the objects of an `--objects`, and checks the pair.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from sottovoce.cloud.store.database import Database, Row
from sottovoce.cloud.store.objects import FileObjects, Objects
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.core.errors import ConfigError


def open_database(
    state: Path,
    store: str = "",
    objects: str = "",
    key_file: Path | None = None,
    *,
    create: bool = True,
) -> Database:
    """Open the state of a cloud.

    Args:
        state: the folder of its files.
        store: ``postgresql://...``; "" for a SQLite file in the folder.
        objects: see `open_objects`.
        key_file: the master key's file; ``master.key`` in ``state`` if None.
        create: create a missing state. False keeps a mistyped name from looking like an empty
            state.

    Raises:
        ConfigError: ``store`` is no URL, its driver is not installed, or the state has another
            version.
        SottovoceError: see `open_objects`, `SqliteDatabase` and `PostgresDatabase`.
    """
    if not store:
        return SqliteDatabase(state, open_objects(objects, state), key_file, create=create)
    if not store.startswith(("postgresql://", "postgres://")):
        raise ConfigError(
            "--store is no URL of a database",  # not quoted: it may hold a password
            fix="give one like postgresql://user@host/database, or none for a file in --state",
            subject="store",
        )
    try:
        from sottovoce.cloud.store.postgres import PostgresDatabase
    except ModuleNotFoundError as error:
        raise _missing("--store", error) from error
    return PostgresDatabase(store, state, open_objects(objects, state), key_file, create=create)


def open_objects(url: str, state: Path) -> Objects:
    """Open the store of adapters and checkpoints.

    Args:
        url: ``file:///folder`` or ``s3://bucket/prefix`` (see `S3Place.of`); "" for ``state``.
        state: the folder of this machine's files.

    Raises:
        ConfigError: the URL is invalid, or the S3 library is not installed.
    """
    if not url:
        return FileObjects(state)
    try:
        parts = urlsplit(url)
        folder = unquote(parts.path, errors="surrogateescape")  # as the file system encodes it
    except ValueError:
        raise _no_store() from None
    if parts.scheme == "file" and not parts.netloc and len(folder) > 1 and "\0" not in folder:
        return FileObjects(Path(folder))
    if parts.scheme == "s3":
        try:
            from sottovoce.cloud.store.s3 import S3Objects, S3Place
        except ModuleNotFoundError as error:
            raise _missing("--objects", error) from error
        return S3Objects(S3Place.of(url), state)
    raise _no_store()


def _no_store() -> ConfigError:
    return ConfigError(
        "--objects is no URL of a store",
        fix="give one like file:///srv/sotto-objects or s3://bucket/prefix, or none for the folder "
        "of --state",
        subject="objects",
    )


def _missing(option: str, error: ModuleNotFoundError) -> ConfigError:
    return ConfigError(
        f"{option} needs {error.name}, which is not installed",
        fix="pip install 'sottovoce-cloud[scale]'",
        subject=option.removeprefix("--"),
    )


_DRAWN: Final = "drawn "
"""Prefix of an id in the database until the objects store it.

If the process dies in between, the next process is not refused.
"""


def check_objects(database: Database, *, bind: bool = True) -> None:
    """Check that the objects belong to this database; see `Objects.bind`.

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
