"""The database for several machines: a PostgreSQL server.

Transactions are READ COMMITTED: a statement sees the rows committed when it begins. A process that
decides by a row locks that row (see `Transaction.lock`). A stalled process loses its connection,
and its locks with it. Adapters and checkpoints lie in a store that all processes share.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import select
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from sottovoce.cloud.store.database import SCHEMA, VERSION, Row, Transaction, check_version
from sottovoce.cloud.store.keys import MASTER_KEY, Keys
from sottovoce.cloud.store.objects import FileObjects, Objects
from sottovoce.core.errors import (
    ConfigError,
    DataLoss,
    InvalidInput,
    NotFound,
    NotReady,
    Unavailable,
)

_MAKING: Final = 0x736F74746F  # an arbitrary number for the advisory lock
_WORDS: Final = (
    (r"\bINTEGER PRIMARY KEY AUTOINCREMENT\b", "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"),
    (r"\bINTEGER\b", "BIGINT"),
    (r"\bREAL\b", "DOUBLE PRECISION"),
    (r"\bBLOB\b", "BYTEA"),
    (r"\) STRICT(, WITHOUT ROWID)?", ")"),
)


def _in_postgres(declarations: str) -> str:
    """Translate `SCHEMA` to PostgreSQL.

    Integers become 64 bits and floats double precision, as SQLite's always are.
    """
    for theirs, ours in _WORDS:
        declarations = re.sub(theirs, ours, declarations)
    return declarations


def _prepare(connection: psycopg.Connection[Any], state: Path, *, create: bool) -> None:
    """Create a missing schema, completely or not at all; check the version of an existing one."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING])
        version = _version(connection)
        if version is not None:
            afresh = "start afresh: give an empty database in --store, and a new --state"
            check_version(version, afresh, "store")
            return
        if not create:
            raise NotFound(
                "the database holds no state of a cloud",
                fix="give the --store that `sotto-cloud serve` has",
                subject="store",
            )
        if (state / "sottovoce.db").exists():
            raise ConfigError(
                f"{state} holds tenants and jobs already, in sottovoce.db",
                fix="leave --store out to go on with them, or begin with another --state",
                subject="store",
            )
        connection.execute("CREATE TABLE schema_version (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO schema_version VALUES (%s)", [VERSION])
        connection.execute(_in_postgres(SCHEMA).encode())


def _version(connection: psycopg.Connection[Any]) -> int | None:
    there = connection.execute("SELECT to_regclass('schema_version') IS NOT NULL AS there")
    if not next(iter(there))["there"]:
        return None
    return int(next(iter(connection.execute("SELECT version FROM schema_version")))["version"])


_LINE: Final = {
    "connect_timeout": 5,
    # A server that disappears silently is noticed within half a minute.
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Seconds; the last value is in milliseconds. Options in the URL take precedence."""


def conninfo(url: str) -> str:
    """Return the URL for libpq, with a timeout for every wait on the network.

    Raises:
        ConfigError: the URL is invalid; the error does not quote it.
    """
    try:
        given = conninfo_to_dict(url.strip())  # files of secrets end with a newline
    except psycopg.ProgrammingError:
        given = {"host": "@"}
    ports = str(given.get("port", "")).split(",")
    if "@" in str(given.get("host", "")) or any(not p.isdecimal() for p in ports if p):
        raise ConfigError(
            "--store is no URL of a database",  # not quoted: it may hold a password
            fix="give one like postgresql://user@host/database; in a password write %40 for @, "
            "%2F for / and so on",
            subject="store",
        )
    return make_conninfo("", **(_LINE | given))


_CHANNEL: Final = b"sottovoce"
_CONNECTIONS: Final = 16
"""Connections of a process at most; further threads wait."""
_WRITERS: Final = 12
"""Connections for writing at most: writers may wait for each other's locks, and readers must not.
"""
_LOCK_SECONDS: Final = 30.0
"""The wait for a row lock, or for other writers of the process."""
_CONNECTION_SECONDS: Final = 5.0
"""The wait for a connection."""
_RECONNECT_SECONDS: Final = 2.0
"""How long the pool retries by itself, with growing pauses.

After that, the next waiting thread triggers a retry at once. So the process notices the server's
return after any outage.
"""
_STANDSTILL: Final = 10
"""Seconds without activity in a transaction, after which a stopped process loses its locks; the
same as a lease.
"""
_NAME: Final = re.compile(r":([a-z_]\w*)")
_Connection = psycopg.Connection[dict[str, Any]]

_log = logging.getLogger(__name__)
# psycopg's pool quotes the server's messages. Lost connections are logged here, by kind.
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


class PostgresDatabase:
    """One process's connections to a database, shared by its threads.

    Args:
        url: ``postgresql://USER@HOST/DATABASE``, with all options of libpq.
        key_file: the master key's file, the same for all machines.
        clock: replaces the server's clock.

    Raises:
        ConfigError: the URL is invalid, the schema has another version, or the folder holds a state
            and the server does not.
        NotFound: the schema is missing, and ``create`` is False.
        NotReady: the folder cannot be made, or the user may not make the schema.
        Unavailable: the server cannot be reached.
    """

    def __init__(
        self,
        url: str,
        state: Path,
        objects: Objects | None = None,
        key_file: Path | None = None,
        *,
        create: bool = True,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.state = state
        self.lost: Callable[[], None] = lambda: None
        self.objects = objects or FileObjects(state)
        self.keys = Keys(key_file or state / MASTER_KEY, self.objects)
        self._conninfo = conninfo(url)
        self._clock = clock
        self._listening, self._news = threading.Lock(), 0
        self._listener: _Connection | None = None
        self._writers = threading.BoundedSemaphore(_WRITERS)
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise NotReady(
                f"cannot write the state folder {state}: {error.strerror}",
                fix="choose a folder this user may write with --state",
                subject="state",
            ) from error
        with _reached(), contextlib.closing(self._connect()) as connection:
            _configure(connection)
            try:
                _prepare(connection, state, create=create)
            except psycopg.errors.InsufficientPrivilege as error:
                raise NotReady(
                    "this user may not make the tables of the cloud's state",
                    fix="grant it CREATE on the database's schema",
                    subject="store",
                ) from error
        self._pool = ConnectionPool(
            self._conninfo,
            connection_class=psycopg.Connection[dict[str, Any]],
            kwargs={"row_factory": dict_row, "autocommit": True},
            configure=_configure,
            check=_still_there,
            min_size=1,
            max_size=_CONNECTIONS,
            timeout=_CONNECTION_SECONDS,
            reconnect_timeout=_RECONNECT_SECONDS,
            num_workers=2,
            open=True,
        )

    def _connect(self) -> _Connection:
        try:
            return psycopg.connect(self._conninfo, row_factory=dict_row, autocommit=True)
        except psycopg.OperationalError as error:
            raise Unavailable(
                "the database cannot be reached, or does not let this user in",
                fix="start the server, or correct --store; `psql` with the same URL says more",
                subject="store",
            ) from error

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        with _reached(), self._pool.connection() as connection:
            yield _Transaction(connection, self._clock)

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """See `Database.write`.

        Raises:
            Unavailable: the server cannot be reached, its disk is full, another transaction holds a
                lock for too long, or there was a deadlock.
            DataLoss: the server's files are damaged.
            InvalidInput: a value that PostgreSQL cannot store, for example a text with a NUL.
        """
        if not self._writers.acquire(timeout=_LOCK_SECONDS):
            raise _unavailable()
        try:
            with _reached(), self._pool.connection() as connection, connection.transaction():
                yield _Transaction(connection, self._clock)
        finally:
            self._writers.release()

    def news(self) -> int:
        """See `Database.news`.

        A reconnection also counts as news, because announcements may be lost.
        """
        with self._listening:
            try:
                if self._listener is None:
                    self._listener = self._connect()
                    self._listener.execute(b"LISTEN " + _CHANNEL)
                    self._news += 1
                self._news += sum(1 for _ in self._listener.notifies(timeout=0))
            except (psycopg.OperationalError, psycopg.InternalError, Unavailable):
                self._stop_listening()
            return self._news

    def scrub(self) -> None:
        """See `Database.scrub`.

        The server's log, replicas and backups are out of reach, so the keys of deleted rows are
        destroyed.
        """
        self.keys.destroy(self)

    def close(self) -> None:
        self._pool.close()
        with self._listening:
            self._stop_listening()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


class _Transaction:
    """Statements on one connection."""

    def __init__(self, connection: _Connection, clock: Callable[[], float] | None) -> None:
        self._connection = connection
        self._clock = clock

    def rows(self, statement: str, **values: object) -> list[Row]:
        return list(self._connection.execute(_translated(statement), values))

    def row(self, statement: str, **values: object) -> Row | None:
        return self._connection.execute(_translated(statement), values).fetchone()

    # The weakest lock that conflicts with itself: rows that only refer to this row need not wait.
    def lock(self, statement: str, **values: object) -> Row | None:
        return self.row(f"{statement} FOR NO KEY UPDATE", **values)

    def lock_free(self, statement: str, **values: object) -> list[Row]:
        return self.rows(f"{statement} FOR NO KEY UPDATE SKIP LOCKED", **values)

    def change(self, statement: str, **values: object) -> int:
        return self._connection.execute(_translated(statement), values).rowcount

    def now(self) -> float:
        if self._clock is not None:
            return self._clock()
        (row,) = self.rows("SELECT CAST(extract(epoch FROM clock_timestamp()) AS FLOAT8) AS now")
        return float(row["now"])

    def announce(self) -> None:
        self._connection.execute(b"NOTIFY " + _CHANNEL)


@functools.lru_cache(maxsize=512)
def _translated(statement: str) -> bytes:
    """Replace ``:name`` by psycopg's placeholders."""
    return _NAME.sub(r"%(\1)s", statement.replace("%", "%%")).encode()


def _configure(connection: _Connection) -> None:
    connection.execute(
        f"SET lock_timeout = '{_LOCK_SECONDS:g}s'; "
        f"SET idle_in_transaction_session_timeout = '{_STANDSTILL}s'".encode()
    )


def _still_there(connection: _Connection) -> None:
    """Check for unexpected data on an idle connection.

    The server sends data on an idle connection only to close it. The pool then opens a new one.
    """
    heard = select.poll()
    heard.register(connection.fileno(), select.POLLIN)
    if heard.poll(0):
        ConnectionPool.check_connection(connection)


@contextlib.contextmanager
def _reached() -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
        _log.error("the database is damaged: %s", type(error).__name__)
        raise DataLoss(
            "the cloud's database is damaged",
            fix="have the provider restore it from a backup",
            subject="store",
        ) from error
    except (psycopg.OperationalError, psycopg.InternalError) as error:
        # Only the kind is logged: a server's error message may quote values.
        _log.error("the database: %s %s", type(error).__name__, error.sqlstate or "")
        raise _unavailable() from error
    except psycopg.DataError as error:
        raise InvalidInput(
            "a value in it cannot be kept in the cloud's database",
            fix="send texts without NUL characters",
        ) from error


def _unavailable() -> Unavailable:
    return Unavailable(
        "the cloud cannot reach its state now", fix="send the same message again later"
    )
