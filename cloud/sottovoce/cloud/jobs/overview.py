"""An overview of all jobs: counts by state, queue length and active trainers.

A server, a front and a trainer share one database, and all export these figures to Prometheus.
`sotto-cloud status` prints them. The figures name no tenants.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sottovoce.cloud.job import Progress, State
from sottovoce.cloud.store.database import Database


@dataclass(frozen=True, slots=True)
class Running:
    """A job that a trainer has claimed.

    Attributes:
        job: its id.
        trainer: the trainer's random name.
        lease_seconds: time left on the lease. At 0 or less, the trainer died or stalled, and
            another one may take the job.
        attempts: rounds since the job last made progress, including this one.
        progress: the job's progress.
    """

    job: str
    trainer: str
    lease_seconds: float
    attempts: int
    progress: Progress

    @property
    def held(self) -> bool:
        """Return whether the lease is still valid."""
        return self.lease_seconds > 0


@dataclass(frozen=True, slots=True)
class Overview:
    """The jobs of a cloud at one moment.

    Attributes:
        counts: jobs by state, without deleted jobs.
        oldest_queued_seconds: waiting time of the job queued first; 0 if none waits.
        running: jobs that a trainer holds, or held until its lease ended.
    """

    counts: Counter[State]
    oldest_queued_seconds: float
    running: tuple[Running, ...]

    @property
    def trainers(self) -> int:
        """Count trainers that hold a lease; idle trainers are not recorded."""
        return len({each.trainer for each in self.running if each.held})

    @property
    def expired(self) -> int:
        """Count jobs in training with an expired lease."""
        return sum(not each.held for each in self.running)

    @property
    def examples_per_second(self) -> float:
        """Return the total training speed of all running jobs."""
        return sum(each.progress.examples_per_second for each in self.running)


def overview(database: Database) -> Overview:
    """Return the current jobs, by the database's clock."""
    with database.read() as transaction:
        now = transaction.now()
        counts = transaction.rows(
            "SELECT state, count(*) AS n FROM jobs WHERE deleted = 0 GROUP BY state"
        )
        (oldest,) = transaction.rows(
            "SELECT min(updated) AS since FROM jobs WHERE deleted = 0 AND state = 'QUEUED'"
        )
        running = transaction.rows(
            "SELECT id, lease_owner, lease_ends, attempts, progress FROM jobs "
            "WHERE deleted = 0 AND state = 'RUNNING' ORDER BY number"
        )
    since = oldest["since"]
    return Overview(
        Counter({State(row["state"]): row["n"] for row in counts}),
        0.0 if since is None else max(0.0, now - since),
        tuple(
            Running(
                row["id"],
                row["lease_owner"],
                row["lease_ends"] - now,
                row["attempts"],
                Progress(**json.loads(row["progress"])),
            )
            for row in running
        ),
    )


class JobsCollector(Collector):
    """Prometheus metrics about jobs, read from the database on each scrape."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the current figures; they are the same on every process."""
        found = overview(self._database)
        jobs = GaugeMetricFamily("sottovoce_jobs", "Training jobs, by state.", labels=["state"])
        for state in State:
            jobs.add_metric([state.lower()], found.counts[state])
        yield jobs
        for name, about, value in (
            (
                "sottovoce_oldest_queued_seconds",
                "Since the job that has waited longest was queued.",
                found.oldest_queued_seconds,
            ),
            ("sottovoce_trainers", "Trainers that hold the lease of a job.", found.trainers),
            (
                "sottovoce_expired_leases",
                "Jobs in training whose trainer died or stands still.",
                found.expired,
            ),
            (
                "sottovoce_training_examples_per_second",
                "Of the jobs that run now.",
                found.examples_per_second,
            ),
        ):
            yield GaugeMetricFamily(name, about, value=value)
