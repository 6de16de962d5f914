"""The database of one machine: a SQLite file in the state's folder.

Server, worker and command line are separate processes on one file, so the file is in WAL mode.
Every write is one short IMMEDIATE transaction, so a crash leaves no half-applied change. Reads use
a separate connection, which waits for no writer.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sottovoce.cloud.store.database import SCHEMA, VERSION, Row, Transaction, check_version
from sottovoce.cloud.store.keys import MASTER_KEY, Keys
from sottovoce.cloud.store.objects import FileObjects, Objects
from sottovoce.core.errors import DataLoss, NotFound, NotReady, SottovoceError, Unavailable
from sottovoce.core.platform.files import DatabaseFiles, make_database

_log = logging.getLogger(__name__)


class SqliteDatabase:
    """One process's connections to ``<state>/sottovoce.db``, shared by its threads.

    Args:
        clock: SQLite runs within its users' processes, so this machine's clock is the database's.

    Raises:
        NotFound: the state does not exist, and ``create`` is False.
        NotReady: the folder cannot be written.
        ConfigError: the file has another version.
        Unavailable: the disk is full.
        DataLoss: the file is not ours.
    """

    def __init__(
        self,
        state: Path,
        objects: Objects | None = None,
        key_file: Path | None = None,
        *,
        create: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.state = state
        self.lost: Callable[[], None] = lambda: None
        self.objects = objects or FileObjects(state)
        self.keys = Keys(key_file or state / MASTER_KEY)
        self._clock = clock
        self._writing, self._reading = threading.RLock(), threading.RLock()
        file = state / "sottovoce.db"
        self._files = DatabaseFiles(file)
        if not create and not file.is_file():
            raise _no_state(state)
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            # The file holds tenants' released texts, so only its owner may read it.
            make_database(file)
            self._connection, self._reader = _connected(file), _connected(file)
        except (OSError, sqlite3.OperationalError) as error:
            told = error.strerror if isinstance(error, OSError) else error
            raise NotReady(
                f"cannot write the state folder {state}: {told}",
                fix="choose a folder this user may write with --state",
                subject="state",
            ) from error
        try:
            if not self._is_made() and not create:
                raise _no_state(state)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            # Deleted data must not linger in free pages.
            self._connection.execute("PRAGMA secure_delete = ON")
            self._make()
            self._reader.execute("PRAGMA query_only = ON")
            self._files.note()
        except SottovoceError:
            self.close()
            raise
        except sqlite3.OperationalError as error:
            self.close()
            raise Unavailable(
                f"the state file cannot be used now: {error}",
                fix="make room on its disk, or end what keeps it",
                subject="state",
            ) from error
        except sqlite3.DatabaseError as error:
            self.close()
            raise DataLoss(
                f"the state file is damaged: {error}",
                fix="restore sottovoce.db from a backup, or start with a new --state",
                subject="state",
            ) from error

    def _is_made(self) -> bool:
        """Return whether the file has its tables; False for a new file."""
        ((version,),) = self._connection.execute("PRAGMA user_version")
        if version:
            afresh = f"start afresh: move {self.state} away, or give a new --state"
            check_version(version, afresh, "state")
        return bool(version)

    def _make(self) -> None:
        with self.write() as transaction:
            if not self._is_made():
                for statement in SCHEMA.split(";"):
                    transaction.change(statement)
                self._connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        """See `Database.read`.

        Raises:
            Unavailable: the disk does not read, or another process kept the file for half a minute.
            DataLoss: the file is damaged, or was replaced.
        """
        with self._reading, _sound():
            self._check()
            yield _Transaction(self._reader, self._clock)

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """See `Database.write`.

        Raises:
            Unavailable: the disk is full, or another process kept the file for half a minute.
            DataLoss: the file is damaged, or was replaced.
        """
        with self._writing, _sound():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    self._check()
                    yield _Transaction(self._connection, self._clock)
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:  # else SQLite rolled it back already
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.OperationalError as error:
                _log.error("the state file was not written: %s", error)
                raise Unavailable(
                    "the cloud cannot write its state", fix="send the same message again later"
                ) from error

    def news(self) -> int:
        """See `Database.news`. Every commit counts; the reading connection itself makes none."""
        with self._reading, _sound():
            self._check()
            (version,) = self._reader.execute("PRAGMA data_version").fetchone()
        return int(version)

    def scrub(self) -> None:
        """See `Database.scrub`. Empties the write-ahead log, where deleted rows would survive.

        Best effort: if another process is reading, its next call does it.
        """
        with self._writing, contextlib.suppress(sqlite3.OperationalError):
            self._check()
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """See `Database.close`.

        Raises:
            DataLoss: the files were replaced; the connections then stay open.
        """
        with self._writing, self._reading:
            self._files.close(self._reader, self._connection)

    def _check(self) -> None:
        try:
            self._files.check()
        except DataLoss as error:
            _log.error("the state file cannot be used any more: %s", error)
            self.lost()
            raise DataLoss(  # tenants read this message, so it names no path
                "the state file was removed or replaced while the cloud was using it",
                fix="have the provider start the cloud again",
                subject="state",
            ) from error


@contextlib.contextmanager
def _sound() -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        name: str = getattr(error, "sqlite_errorname", "")
        if isinstance(error, sqlite3.OperationalError):
            _log.error("the state file was not read: %s", error)
            raise Unavailable(
                "the cloud cannot read its state", fix="send the same message again later"
            ) from error
        if not name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise
        _log.error("the state file is damaged: %s", error)
        raise DataLoss(
            "the state file is damaged",
            fix="have the provider restore sottovoce.db from a backup",
            subject="state",
        ) from error


class _Transaction:
    """Statements on one connection."""

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._connection = connection
        self.now = clock

    def rows(self, statement: str, **values: object) -> list[Row]:
        return [dict(row) for row in self._connection.execute(statement, values)]

    def row(self, statement: str, **values: object) -> Row | None:
        rows = self.rows(statement, **values)
        return rows[0] if rows else None

    # A writer has locked the whole file.
    lock = row
    lock_free = rows

    def change(self, statement: str, **values: object) -> int:
        return self._connection.execute(statement, values).rowcount

    def announce(self) -> None:
        """Do nothing, because any commit is news."""


def _connected(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    return connection


def _no_state(state: Path) -> NotFound:
    return NotFound(
        f"{state} holds no state of a server",
        fix="give the --state that `sotto-cloud serve` has",
        subject="state",
    )
