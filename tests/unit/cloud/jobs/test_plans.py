"""No statement of a job's way scans a table, so one tenant's past slows no other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sottovoce.cloud.job import Progress, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from tests.support.jobs import claim, create, fill
from tests.support.stores import FileStore, Store

GROWING = ("jobs", "examples", "usage", "adapters", "limits")
"""Tables that a tenant's use makes longer."""
PARTIAL = "USING INDEX jobs_unpurged"
"""Of all jobs it holds only those that are still to be purged: it may be read through."""


@pytest.fixture
def store() -> Store:
    """A file: plans are SQLite's."""
    return FileStore()


@contextmanager
def traced(jobs: Jobs) -> Iterator[set[str]]:
    """The statements that are run meanwhile, with their values."""
    found: set[str] = set()
    connections = (jobs.database._connection, jobs.database._reader)  # type: ignore[attr-defined]
    for connection in connections:
        connection.set_trace_callback(found.add)
    try:
        yield found
    finally:
        for connection in connections:
            connection.set_trace_callback(None)


def read_through(state: Path, statements: set[str]) -> list[tuple[str, str]]:
    """Statements that visit every row of a table that grows, and how SQLite says so."""
    with closing(sqlite3.connect(state / "sottovoce.db")) as connection:
        return [
            (statement, plan)
            for statement in sorted(statements)
            if statement.startswith(("SELECT", "INSERT", "UPDATE", "DELETE"))
            for *_, plan in connection.execute(f"EXPLAIN QUERY PLAN {statement}")
            if plan.startswith("SCAN")
            and plan.split()[1] in (*GROWING, "waiting")
            and not plan.endswith(PARTIAL)
        ]


def a_life(jobs: Jobs) -> None:
    """All that is asked of the database between a job's creation and its end, and for others."""
    queue = Queue(jobs.database)
    job = create(jobs)
    jobs.start(job.id, "acme", fill(jobs, job))
    jobs.page("acme")
    jobs.get(job.id, "acme")
    running, lease = claim(jobs)
    queue.examples(running.id)
    queue.begin(lease, ("a", "b"))
    queue.report(lease, Progress(), 5.0)
    queue.stop_requested(lease)
    queue.finish(lease, State.SUCCEEDED, adapter=AdapterFiles(jobs.database.state / "a", "ab"))
    locate(jobs.database, "acme", "topics")
    queue.claim("w")
    jobs.give_up_abandoned()
    jobs.cancel(create(jobs, "cancelled", "other").id)
    jobs.delete(job.id)
    jobs.unpurged()
    jobs.purge(job.id)


def test_no_statement_of_a_jobs_way_reads_a_table_through(jobs: Jobs) -> None:
    with traced(jobs) as statements:
        a_life(jobs)
    assert len(statements) > 30
    assert read_through(jobs.database.state, statements) == []


def test_without_its_indices_the_same_is_seen_to_read_them_through(jobs: Jobs) -> None:
    with traced(jobs) as statements:
        a_life(jobs)
    with jobs.database.write() as transaction:
        for name in ("jobs_by_state", "jobs_unpurged"):
            transaction.change(f"DROP INDEX {name}")
    found = read_through(jobs.database.state, statements)
    assert any("waiting" in plan for _, plan in found), "the claim"
    assert any("purged = 0" in statement for statement, _ in found), "what is left to purge"
