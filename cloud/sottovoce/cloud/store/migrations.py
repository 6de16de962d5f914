"""The database schema by version, and the migration of older files.

Each entry of `VERSIONS` upgrades a state from version n to n + 1. The same transaction increments
the version, so no state is left halfway. A released entry never changes; new entries are added.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sottovoce.cloud.store.adapters import digest, install
from sottovoce.cloud.store.database import Database, Transaction
from sottovoce.core.errors import NotReady

__all__ = ["VERSIONS", "Version", "earlier", "remove_leftovers"]


@dataclass(frozen=True, slots=True)
class Version:
    """SQL statements, and a step that then reads data from the state's files."""

    statements: str
    read_files: Callable[[Transaction, Database], None] | None = None


_FIRST: Final = """
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
_LIMITS: Final = """
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
_ADAPTERS: Final = """
CREATE TABLE adapters (
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  job TEXT NOT NULL UNIQUE,
  folder TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  created REAL NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
"""
_LEASES: Final = """
ALTER TABLE jobs ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN lease_owner TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN lease_ends REAL NOT NULL DEFAULT 0;
CREATE TABLE usage (
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  hour INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (tenant, hour)
) STRICT, WITHOUT ROWID;
INSERT INTO usage
  SELECT tenant, CAST(started / 3600 AS INTEGER), sum(max(trained, 1.0)) FROM jobs
  WHERE started > CAST(strftime('%s', 'now') AS REAL) - 90000 GROUP BY 1, 2;
DROP INDEX jobs_by_start;
ALTER TABLE jobs DROP COLUMN started;
DROP INDEX jobs_by_state;
CREATE INDEX jobs_by_state ON jobs (state, tenant, number);
CREATE INDEX jobs_by_tenant ON jobs (tenant, number);
DROP INDEX jobs_unpurged;
CREATE INDEX jobs_unpurged ON jobs (id) WHERE deleted = 1 AND purged = 0;
"""
_CLOCK: Final = """
CREATE TABLE clock (
  seen REAL NOT NULL,
  awake REAL NOT NULL
) STRICT;
INSERT INTO clock VALUES (0, 0);
ALTER TABLE jobs ADD COLUMN touched REAL NOT NULL DEFAULT 0;
"""
_OUTPUTS: Final = """
ALTER TABLE examples ADD COLUMN output TEXT NOT NULL DEFAULT '';
"""
_CHECKPOINTS: Final = """
ALTER TABLE jobs ADD COLUMN checkpoint TEXT NOT NULL DEFAULT '';
CREATE INDEX jobs_untidy ON jobs (id)
  WHERE checkpoint <> '' AND state IN ('SUCCEEDED', 'FAILED', 'CANCELLED');
"""
_CREDENTIALS: Final = """
CREATE TABLE credentials (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  token_sha256 BLOB NOT NULL UNIQUE,
  scope TEXT NOT NULL,
  created REAL NOT NULL,
  ends REAL,
  revoked INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX credentials_by_tenant ON credentials (tenant, number);
INSERT INTO credentials (tenant, name, token_sha256, scope, created)
  SELECT name, 'first', token_sha256, 'all', created FROM tenants;
ALTER TABLE tenants DROP COLUMN token_sha256;
ALTER TABLE tenants ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0;
CREATE TABLE codes (
  selector TEXT PRIMARY KEY,
  secret_sha256 BLOB NOT NULL,
  tenant TEXT NOT NULL REFERENCES tenants (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  token_seconds REAL,
  ends REAL NOT NULL,
  wrong INTEGER NOT NULL DEFAULT 0,
  token_sha256 BLOB
) STRICT, WITHOUT ROWID;
CREATE TABLE acts (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  done REAL NOT NULL,
  who TEXT NOT NULL,
  what TEXT NOT NULL,
  tenant TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT;
"""
_CONTINUES: Final = """
ALTER TABLE jobs ADD COLUMN continues INTEGER NOT NULL DEFAULT 0;
"""
_SEALED: Final = """
CREATE TABLE master (
  one INTEGER PRIMARY KEY,
  mark BLOB NOT NULL
) STRICT;
CREATE TABLE keys (
  job TEXT PRIMARY KEY,
  wrapped BLOB NOT NULL,
  ended INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_ended ON keys (job) WHERE ended = 1;
CREATE TABLE blocks (
  job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
  first INTEGER NOT NULL,
  labels BLOB NOT NULL,
  texts BLOB NOT NULL,
  PRIMARY KEY (job, first)
) STRICT;
"""
_NO_PLAIN_TEXT: Final = """
ALTER TABLE examples DROP COLUMN text;
ALTER TABLE examples DROP COLUMN label;
ALTER TABLE examples DROP COLUMN plain_tokens;
ALTER TABLE examples DROP COLUMN plain_token_ids;
ALTER TABLE examples DROP COLUMN output;
"""
_UNTIDY: Final = """
ALTER TABLE jobs ADD COLUMN untidy INTEGER NOT NULL DEFAULT 0;
UPDATE jobs SET untidy = 1 WHERE fence > 0;
DROP INDEX jobs_untidy;
CREATE INDEX jobs_untidy ON jobs (id)
  WHERE untidy = 1 AND state IN ('SUCCEEDED', 'FAILED', 'CANCELLED');
"""
_OBJECTS: Final = """
CREATE TABLE objects (
  one INTEGER PRIMARY KEY,
  id TEXT NOT NULL
) STRICT;
"""
_REPLACES: Final = """
ALTER TABLE codes ADD COLUMN replaces INTEGER NOT NULL DEFAULT 1;
"""
_TRACE: Final = """
ALTER TABLE jobs ADD COLUMN trace TEXT NOT NULL DEFAULT '';
"""
_BUNDLES: Final = """
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
"""
_DEVICES: Final = """
ALTER TABLE credentials ADD COLUMN device TEXT NOT NULL DEFAULT '';
"""
_CERTIFICATES: Final = """
CREATE TABLE certificates (
  one INTEGER PRIMARY KEY,
  required INTEGER NOT NULL
) STRICT;
INSERT INTO certificates (one, required) VALUES (1, 0);
"""
_COMMON_LIMITS: Final = """
CREATE TABLE common_limits (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""
_AT_ONCE: Final = 256


def _read_links(transaction: Transaction, database: Database) -> None:
    """Read adapter names, which were symbolic links to the training job's folder."""
    state = database.state
    for link in sorted((state / "adapters").glob("*/[!.]*")):
        folder = link.resolve()
        job = folder.parent.name
        ours = transaction.row("SELECT 1 FROM jobs WHERE id = :job AND deleted = 0", job=job)
        if ours and folder.is_dir() and folder.is_relative_to(state.resolve()):
            install(
                transaction,
                link.parent.name,
                link.name,
                job=job,
                folder=folder.relative_to(state.resolve()).as_posix(),
                sha256=digest(folder),
            )


def _number_folders(transaction: Transaction, database: Database) -> None:
    """Move a running job's files from its folder into one named after the lease."""
    for row in transaction.rows("SELECT id FROM jobs WHERE state = 'RUNNING'"):
        home = database.state / "jobs" / row["id"]
        for old in (home / "checkpoints", home / "adapter"):
            if old.is_dir():
                (home / "0").mkdir(exist_ok=True)
                old.rename(home / "0" / old.name)


def _name_checkpoints(transaction: Transaction, database: Database) -> None:
    """Record checkpoint names in rows; before, a new worker searched for the files."""
    for row in transaction.rows("SELECT id FROM jobs WHERE state = 'RUNNING'"):
        home = database.state / "jobs" / row["id"]
        tokens = [int(f.parent.name) for f in home.glob("[0-9]*/checkpoints")]
        if tokens:
            transaction.change(
                "UPDATE jobs SET checkpoint = :name WHERE id = :job",
                name=f"jobs/{row['id']}/{max(tokens)}/checkpoints",
                job=row["id"],
            )


def _seal_examples(transaction: Transaction, database: Database) -> None:
    """Encrypt examples from plain columns, which a later version drops."""
    for job in [r["job"] for r in transaction.rows("SELECT DISTINCT job FROM examples")]:
        cipher, first = database.keys.make(transaction, job), 0
        while rows := transaction.rows(
            "SELECT * FROM examples WHERE job = :job AND sequence >= :first "
            "ORDER BY sequence LIMIT :some",
            job=job,
            first=first,
            some=_AT_ONCE,
        ):
            texts = [
                (
                    r["text"],
                    *map(json.loads, (r["plain_tokens"], r["plain_token_ids"])),
                    r["output"],
                )
                for r in rows
            ]
            transaction.change(
                "INSERT INTO blocks (job, first, labels, texts) "
                "VALUES (:job, :first, :labels, :texts)",
                job=job,
                first=first,
                labels=cipher.seal([r["label"] for r in rows], f"{job} {first} labels"),
                texts=cipher.seal(texts, f"{job} {first} texts"),
            )
            first = rows[-1]["sequence"] + 1
    transaction.change(
        "UPDATE examples SET text = '', label = '', plain_tokens = '', plain_token_ids = '', "
        "output = ''"
    )


VERSIONS: Final = (
    Version(_FIRST),
    Version(_LIMITS),
    Version(_ADAPTERS, _read_links),
    Version(_LEASES, _number_folders),
    Version(_CLOCK),
    Version(_OUTPUTS),
    Version(_CHECKPOINTS, _name_checkpoints),
    Version(_CREDENTIALS),
    Version(_CONTINUES),
    Version(_SEALED, _seal_examples),
    Version(_NO_PLAIN_TEXT),
    Version(_UNTIDY),
    Version(_OBJECTS),
    Version(_REPLACES),
    Version(_TRACE),
    Version(_BUNDLES),
    Version(_DEVICES),
    Version(_CERTIFICATES),
    Version(_COMMON_LIMITS),
)


def earlier(version: int) -> NotReady:
    """Return the error for a command that must not upgrade: older servers may be running."""
    return NotReady(
        f"the state is of the earlier version {version}, this program has {len(VERSIONS)}",
        fix="stop all servers and trainers that use it, back it up, and start this version's "
        "`sotto-cloud serve`, replica, front or trainer: that brings it up to date",
        subject="state",
    )


def remove_leftovers(state: Path) -> None:
    """Remove files replaced by a table, once the transaction is committed."""
    shutil.rmtree(state / "adapters", ignore_errors=True)
    for name in ("worker.bell", "worker.lock"):
        (state / name).unlink(missing_ok=True)
