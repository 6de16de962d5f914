"""The SQLite file behind the cloud: schema and transactions, nothing else.

Server, worker and command line are separate processes on one file, so it is in
WAL mode, and every write is one short IMMEDIATE transaction: there is never a
half-applied change to recover from after a crash.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from sottovoce.edge.errors import DataLoss, NotReady

__all__ = ["Store"]

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
    """One process's connection to ``<state>/sottovoce.db``, shared by its threads.

    Raises:
        NotReady: the folder cannot be written.
        DataLoss: the file is not ours, or of a newer version.
    """

    def __init__(self, state: Path) -> None:
        self.state = state
        self._lock = threading.RLock()
        file = state / "sottovoce.db"
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
        self._connection = sqlite3.connect(
            file, timeout=30.0, isolation_level=None, check_same_thread=False
        )
        self._connection.row_factory = sqlite3.Row
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute("PRAGMA foreign_keys = ON")
            # What a tenant deletes must not linger in free pages.
            self._connection.execute("PRAGMA secure_delete = ON")
            self._create()
        except sqlite3.DatabaseError as error:
            self._connection.close()
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
        """The connection, for queries."""
        with self._lock:
            yield self._connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """The connection within a transaction: all of the block, or nothing."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def scrub(self) -> None:
        """Empties the write-ahead log, where deleted rows would otherwise live on.

        Best effort: while another process reads, its next call does it.
        """
        with self._lock:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Closes the file; the store is of no use afterwards."""
        with self._lock:
            self._connection.close()
