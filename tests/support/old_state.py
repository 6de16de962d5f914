"""States of the cloud as earlier versions left them."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict
from pathlib import Path

from sottovoce.cloud.store.migrations import VERSIONS
from sottovoce.cloud.tenants.credentials import hashed
from tests.support.examples import RELEASE

__all__ = ["add_open_examples", "stored"]


def stored(state: Path, version: int) -> None:
    """A state as version ``version`` left it: four jobs, the last of them in training."""
    with sqlite3.connect(state / "sottovoce.db") as connection:
        for each in VERSIONS[:version]:
            connection.executescript(each.statements)
        connection.execute(f"PRAGMA user_version = {version}")
        if version < 8:
            row = ("acme", hashed("old"), 3.0)
            connection.execute("INSERT INTO tenants VALUES (?, ?, ?)", row)
        else:
            connection.execute("INSERT INTO tenants (name, created) VALUES ('acme', 3)")
        rows = [("j", "QUEUED", 0), ("done", "SUCCEEDED", 0), ("gone", "SUCCEEDED", 1)]
        for job, job_state, deleted in (*rows, ("run", "RUNNING", 0)):
            connection.execute(
                "INSERT INTO jobs (id, tenant, request_id, adapter, state, training, release, "
                "deleted, created, updated) VALUES (?, 'acme', ?, 'topics', ?, '{\"seed\": 4}', ?, "
                "?, 0, 0)",
                (job, job, job_state, json.dumps(asdict(RELEASE)), deleted),
            )
        if version > 1:
            connection.execute("INSERT INTO limits VALUES ('acme', 'examples', 7)")
            connection.execute(
                "UPDATE jobs SET trained = 50 WHERE id = 'done'"
                if version > 3
                else "UPDATE jobs SET trained = 50, started = unixepoch() WHERE id = 'done'"
            )
    connection.close()


def add_open_examples(state: Path, number: int) -> list[tuple[int, str, str, str, str, str, str]]:
    """Gives job "j" of version 6 that many examples, which were not sealed then; returns rows."""
    rows = [
        (n, f"e{n}", f"text {n}", "ab"[n % 2], '["w"]', "[3]", f"out {n}") for n in range(number)
    ]
    with sqlite3.connect(state / "sottovoce.db") as connection:
        connection.executemany("INSERT INTO examples VALUES ('j', ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute("UPDATE jobs SET next_sequence = ? WHERE id = 'j'", (number,))
    connection.close()
    return rows
