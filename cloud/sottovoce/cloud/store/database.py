"""The interface to either database: transactions, reads, a clock and news.

One machine keeps its state in a file; several machines share a server. All other code uses both
through these few methods, in SQL that both understand. Each driver module handles its own pragmas,
locks and types.

A file has one writer at a time, a server has many. So code that decides by a row locks the row
first. Code that counts a tenant's rows locks the tenant first, and the tenant before its jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from sottovoce.cloud.store.keys import Keys
from sottovoce.cloud.store.objects import Objects
from sottovoce.core.errors import ConfigError

VERSION: Final = 20
"""Versions below 20 were never released."""

SCHEMA: Final = """
CREATE TABLE tenants (
  name TEXT PRIMARY KEY,
  created REAL NOT NULL,
  disabled INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE credentials (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  token_sha256 BLOB NOT NULL UNIQUE,
  scope TEXT NOT NULL,
  created REAL NOT NULL,
  ends REAL,
  revoked INTEGER NOT NULL DEFAULT 0,
  device TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX credentials_by_tenant ON credentials (tenant, number);
CREATE TABLE codes (
  selector TEXT PRIMARY KEY,
  secret_sha256 BLOB NOT NULL,
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  token_seconds REAL,
  ends REAL NOT NULL,
  wrong INTEGER NOT NULL DEFAULT 0,
  token_sha256 BLOB,
  replaces INTEGER NOT NULL DEFAULT 1
) STRICT, WITHOUT ROWID;
CREATE TABLE limits (
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  value INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE common_limits (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE usage (
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  hour INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (tenant, hour)
) STRICT, WITHOUT ROWID;
CREATE TABLE acts (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  done REAL NOT NULL,
  who TEXT NOT NULL,
  what TEXT NOT NULL,
  tenant TEXT NOT NULL,
  detail TEXT NOT NULL
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
  bytes INTEGER NOT NULL DEFAULT 0,
  trained REAL NOT NULL DEFAULT 0,
  purged INTEGER NOT NULL DEFAULT 0,
  fence INTEGER NOT NULL DEFAULT 0,
  lease_owner TEXT NOT NULL DEFAULT '',
  lease_ends REAL NOT NULL DEFAULT 0,
  touched REAL NOT NULL DEFAULT 0,
  checkpoint TEXT NOT NULL DEFAULT '',
  continues INTEGER NOT NULL DEFAULT 0,
  untidy INTEGER NOT NULL DEFAULT 0,
  trace TEXT NOT NULL DEFAULT '',
  UNIQUE (tenant, request_id)
) STRICT;
CREATE INDEX jobs_by_state ON jobs (state, tenant, number);
CREATE INDEX jobs_by_tenant ON jobs (tenant, number);
CREATE INDEX jobs_unpurged ON jobs (id) WHERE deleted = 1 AND purged = 0;
CREATE INDEX jobs_untidy ON jobs (id)
  WHERE untidy = 1 AND state IN ('SUCCEEDED', 'FAILED', 'CANCELLED');
CREATE TABLE examples (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  sequence INTEGER NOT NULL,
  example_id TEXT NOT NULL,
  PRIMARY KEY (job, sequence),
  UNIQUE (job, example_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE blocks (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  first INTEGER NOT NULL,
  labels BLOB NOT NULL,
  texts BLOB NOT NULL,
  PRIMARY KEY (job, first)
) STRICT;
CREATE TABLE keys (
  job TEXT PRIMARY KEY,
  wrapped BLOB NOT NULL,
  ended INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_ended ON keys (job) WHERE ended = 1;
CREATE TABLE master (
  one INTEGER PRIMARY KEY,
  mark BLOB NOT NULL
) STRICT;
CREATE TABLE adapters (
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  job TEXT NOT NULL UNIQUE,
  folder TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  created REAL NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE bundles (
  sha256 TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  manifest BLOB NOT NULL,
  signature BLOB NOT NULL,
  backbone TEXT NOT NULL,
  language TEXT NOT NULL,
  size INTEGER NOT NULL,
  created REAL NOT NULL
) STRICT;
CREATE TABLE objects (
  one INTEGER PRIMARY KEY,
  id TEXT NOT NULL
) STRICT;
CREATE TABLE clock (
  seen REAL NOT NULL,
  awake REAL NOT NULL
) STRICT;
INSERT INTO clock VALUES (0, 0);
"""


def check_version(version: int, afresh: str, subject: str) -> None:
    """Refuse a database of another version, before anything in it is altered.

    The migration of a released version will be called where this function refuses it.

    Args:
        afresh: the fix for a version older than the first release.
        subject: the option that names the database.

    Raises:
        ConfigError: the version is not `VERSION`.
    """
    if version > VERSION:
        raise ConfigError(
            f"the state was written by a newer program: it has version {version}, and this program "
            f"knows version {VERSION}",
            fix="install the newer program, which can read it",
            subject=subject,
        )
    if version < VERSION:
        raise ConfigError(
            f"the state has version {version}, which is older than the first release; this "
            f"program needs version {VERSION}",
            fix=afresh,
            subject=subject,
        )


Row = Mapping[str, Any]


def when(seconds: float) -> str:
    """Format a time in seconds since 1970, for people and programs."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


class Transaction(Protocol):
    """A set of statements that commit together.

    Values go by name, ``WHERE id = :id``, never into the text.

    A statement sees all earlier commits, and earlier changes of this transaction.
    """

    def rows(self, statement: str, **values: object) -> list[Row]:
        """Return all rows of a query, or of a change with ``RETURNING``."""
        ...

    def row(self, statement: str, **values: object) -> Row | None: ...

    def lock(self, statement: str, **values: object) -> Row | None:
        """Return and lock the first row of a query on one table until the transaction ends.

        Waits for another holder of the lock, and then returns the row as that holder left it.
        """
        ...

    def lock_free(self, statement: str, **values: object) -> list[Row]:
        """Return and lock all rows of the query, skipping rows that others have locked.

        The query's LIMIT counts only unlocked rows.
        """
        ...

    def change(self, statement: str, **values: object) -> int:
        """Return how many rows the statement changed."""
        ...

    def now(self) -> float:
        """Return the database's time in seconds since 1970.

        Processes compare times by this clock alone, because their machines' clocks may differ.
        """
        ...

    def announce(self) -> None:
        """Announce the change to all processes through `Database.news`, once it is committed."""
        ...


class Database(Protocol):
    """The state of one cloud, shared by the threads of this process and by other processes.

    Attributes:
        state: a folder for files of this machine.
        objects: stores adapters, checkpoints and published bundles.
        keys: encrypts examples.
        lost: called when the files in the folder are no longer those in use; should end the
            process.
    """

    state: Path
    objects: Objects
    keys: Keys
    lost: Callable[[], None]

    def read(self) -> AbstractContextManager[Transaction]:
        """Begin a read of committed data.

        Inside a `write` block it does not see that block's changes. It waits for no writer, so that
        uploads never delay predictions.
        """
        ...

    def write(self) -> AbstractContextManager[Transaction]:
        """Begin a transaction: the whole block is committed, or nothing.

        Raises:
            Unavailable: the database cannot be written now (a full disk, a slow writer), or the
                connection broke during the commit, so that the outcome is unknown.
        """
        ...

    def news(self) -> int:
        """Return a number that changes after any process commits an announced change.

        The call costs next to nothing, and the number may change without reason.
        """
        ...

    def scrub(self) -> None:
        """Erase deleted data from the database's files, as far as its user can."""
        ...

    def close(self) -> None:
        """Close the connections; the object cannot be used afterwards."""
        ...
