"""The database of many machines: a PostgreSQL server.

Transactions are READ COMMITTED: a statement sees what is committed when it begins, and whoever
decides by a row holds its lock (see `Transaction.lock`), which a process that stands still loses
with its connection. Adapters and checkpoints lie in a store that all processes share.
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
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from sottovoce.cloud.state.database import Row, Transaction
from sottovoce.cloud.state.keys import MASTER_KEY, Keys
from sottovoce.cloud.state.objects import FileObjects, Objects
from sottovoce.cloud.state.postgres_schema import upgrade
from sottovoce.cloud.state.postgres_url import conninfo
from sottovoce.core.errors import DataLoss, InvalidInput, NotReady, Unavailable

__all__ = ["PostgresDatabase"]

_CHANNEL: Final = b"sottovoce"
_CONNECTIONS: Final = 16
"""Of a process at most; threads beyond them wait for each other."""
_WRITERS: Final = 12
"""Of these at most: they may wait for each other's locks, and reading must not wait with them."""
_LOCK_SECONDS: Final = 30.0
"""To wait for another's lock, or for other writers of the process."""
_CONNECTION_SECONDS: Final = 5.0
"""To wait for a connection."""
_RECONNECT_SECONDS: Final = 2.0
"""For which the pool tries again by itself, more and more rarely. Afterwards whoever waits next
has it try at once: however long the server was away, its return is noticed."""
_STANDSTILL: Final = 10
"""Seconds within a transaction, after which the locks of a process that was stopped are given up;
the same as a lease."""
_NAME: Final = re.compile(r":([a-z_]\w*)")
_Connection = psycopg.Connection[dict[str, Any]]

_log = logging.getLogger(__name__)
# It quotes what the server says. That there is no connection is logged here, by kind.
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


class PostgresDatabase:
    """One process's connections to a database, shared by its threads.

    Args:
        url: ``postgresql://USER@HOST/DATABASE``, with all that libpq knows.
        state: the folder for files.
        objects: where adapters and checkpoints lie; in the folder, too, if None.
        key_file: of the master key, the same for all machines; ``master.key`` in the folder if
            None.
        create: make the schema if it is not there, and bring an earlier one up to date.
        clock: in place of the server's.

    Raises:
        ConfigError: the URL is none, or the folder holds a state of its own and the server none.
        NotFound: there is no schema, and ``create`` is False.
        NotReady: the folder cannot be made, the user may not make the schema, or it is of an
            earlier version, and ``create`` is False.
        Unavailable: the server cannot be reached.
        DataLoss: the schema is of a newer version.
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
                upgrade(connection, _Transaction(connection, clock), self, create=create)
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
        """See `Database.read`.

        Raises:
            Unavailable: the server cannot be reached.
            InvalidInput: see `write`.
        """
        with _reached(), self._pool.connection() as connection:
            yield _Transaction(connection, self._clock)

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """See `Database.write`.

        Raises:
            Unavailable: the server cannot be reached, its disk is full, another transaction kept
                what this one needs, or both waited for each other.
            DataLoss: the server's files are damaged.
            InvalidInput: a value that PostgreSQL cannot keep, such as a text with a NUL.
        """
        if not self._writers.acquire(timeout=_LOCK_SECONDS):
            raise _unavailable()
        try:
            with _reached(), self._pool.connection() as connection, connection.transaction():
                yield _Transaction(connection, self._clock)
        finally:
            self._writers.release()

    def news(self) -> int:
        """See `Database.news`. What was missed while the server was away is news as well."""
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
        """See `Database.scrub`. A server's log, replicas and backups are not its user's, so what
        opened the rows goes."""
        self.keys.destroy(self)

    def close(self) -> None:
        """See `Database.close`."""
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

    # The weakest lock that keeps out its like: rows that only refer to this one need not wait.
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
    """``:name`` as psycopg writes it."""
    return _NAME.sub(r"%(\1)s", statement.replace("%", "%%")).encode()


def _configure(connection: _Connection) -> None:
    connection.execute(
        f"SET lock_timeout = '{_LOCK_SECONDS:g}s'; "
        f"SET idle_in_transaction_session_timeout = '{_STANDSTILL}s'".encode()
    )


def _still_there(connection: _Connection) -> None:
    """A server says nothing on an idle connection but that it ends it: then it takes a new one."""
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
        # By kind alone: what a server says of an error may quote values.
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
