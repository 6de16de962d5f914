"""The SQLite file behind the cloud: schema and transactions, nothing else.

Server, worker and command line are separate processes on one file, so it is in
WAL mode, and every write is one short IMMEDIATE transaction: there is never a
half-applied change to recover from after a crash. Reading has a connection of
its own, which waits for no writer: who asks for a prediction must not be held
up by someone else's upload.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from sottovoce.core.errors import DataLoss, NotFound, NotReady, Unavailable

__all__ = ["Store"]

_log = logging.getLogger(__name__)

_FIRST = """
CREATE TABLE tenants (
  name TEXT PRIMARY KEY,
  token_sha256 BLOB NOT NULL,
  created REAL NOT NULL
) STRICT;
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL REFERENCES tenants (name),
  request_id TEXT NOT NULL,
  adapter TEXT NOT NULL,
  state TEXT NOT NULL,
  training TEXT NOT NULL,
  release TEXT NOT NULL,
  progress TEXT NOT NULL DEFAULT '{}',
  labels TEXT NOT NULL DEFAULT '[]',
  message TEXT NOT NULL DEFAULT '',
  next_sequence INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0,
  deleted INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  updated REAL NOT NULL,
  UNIQUE (tenant, request_id)
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, number);
CREATE TABLE examples (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  example_id TEXT NOT NULL,
  text TEXT NOT NULL,
  label TEXT NOT NULL,
  plain_tokens TEXT NOT NULL,
  plain_token_ids TEXT NOT NULL,
  PRIMARY KEY (job, sequence),
  UNIQUE (job, example_id)
) STRICT, WITHOUT ROWID;
"""
_LIMITS = """
ALTER TABLE jobs ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN started REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN trained REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_start ON jobs (tenant, started);
CREATE INDEX jobs_unpurged ON jobs (id) WHERE deleted AND NOT purged;
CREATE TABLE limits (
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
"""
_VERSIONS = (_FIRST, _LIMITS)
"""What makes a file of version n + 1 out of one of version n; a file is never left in between."""


class Store:
    """One process's connections to ``<state>/sottovoce.db``, shared by its threads.

    Args:
        state: the folder.
        create: make it if it is not there; else a mistyped name would look like an empty state.

    Raises:
        NotFound: no state is there, and ``create`` is False.
        NotReady: the folder cannot be written.
        Unavailable: the disk is full.
        DataLoss: the file is not ours, or of a newer version.
    """

    def __init__(self, state: Path, *, create: bool = True) -> None:
        self.state = state
        self._writing, self._reading = threading.RLock(), threading.RLock()
        file = state / "sottovoce.db"
        if not create and not file.is_file():
            raise NotFound(
                f"{state} holds no state of a server",
                fix="give the --state that `sotto-cloud serve` has",
                subject="state",
            )
        try:
            state.mkdir(parents=True, exist_ok=True, mode=0o700)
            # The file holds tenants' released texts: nobody else's to read.
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise NotReady(
                f"cannot write the state folder {state}: {error.strerror}",
                fix="choose a folder this user may write with --state",
                subject="state",
            ) from error
        self._connection, self._reader = _connected(file), _connected(file)
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            # What a tenant deletes must not linger in free pages.
            self._connection.execute("PRAGMA secure_delete = ON")
            self._create()
            self._reader.execute("PRAGMA query_only = ON")
        except Unavailable:
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

    def _create(self) -> None:
        with self.write() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > len(_VERSIONS):
                raise sqlite3.DatabaseError(
                    f"schema version {version}, this program knows {len(_VERSIONS)}"
                )
            for statements in _VERSIONS[version:]:
                for statement in statements.split(";"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(_VERSIONS)}")

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection for queries. They see what is committed: within `write`, nothing of it."""
        with self._reading:
            yield self._reader

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """The connection within a transaction: all of the block, or nothing.

        Raises:
            Unavailable: the disk is full, or another process kept the file for half a minute.
        """
        with self._writing:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:  # else SQLite took it back by itself
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.OperationalError as error:
                _log.error("the state file was not written: %s", error)
                raise Unavailable(
                    "the cloud cannot write its state", fix="send the same message again later"
                ) from error

    def scrub(self) -> None:
        """Empties the write-ahead log, where deleted rows would otherwise live on.

        Best effort: while another process reads, its next call does it.
        """
        with self._writing, contextlib.suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Closes the file; the store is of no use afterwards."""
        with self._writing, self._reading:
            self._reader.close()
            self._connection.close()


def _connected(file: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    return connection
