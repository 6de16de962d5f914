"""All jobs at a glance: how many are in which state, how long the queue is, who trains.

Why it is here: a server, a front and a trainer tell Prometheus the same of the one database that
they share, and `sotto-cloud status` tells a person. Whose jobs they are is in none of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from sottovoce.cloud.job import Progress, State
from sottovoce.cloud.state.database import Database

__all__ = ["JobsCollector", "Overview", "Running", "overview"]


@dataclass(frozen=True, slots=True)
class Running:
    """A job in a trainer's hands.

    Attributes:
        job: its id.
        trainer: the name that the trainer gave itself, which is random.
        lease_seconds: that its lease still lasts; 0 or less: the trainer died or stands still,
            and another one may take the job.
        attempts: rounds since the job last got further, this one included.
        progress: how far it is.
    """

    job: str
    trainer: str
    lease_seconds: float
    attempts: int
    progress: Progress

    @property
    def held(self) -> bool:
        """Whether somebody trains it now."""
        return self.lease_seconds > 0


@dataclass(frozen=True, slots=True)
class Overview:
    """The jobs of a cloud at one moment.

    Attributes:
        counts: jobs by state, of those that were not deleted.
        oldest_queued_seconds: since the job that has waited longest was queued; 0 if none waits.
        running: those that a trainer has, or had.
    """

    counts: Counter[State]
    oldest_queued_seconds: float
    running: tuple[Running, ...]

    @property
    def trainers(self) -> int:
        """How many trainers hold a lease. Of those that wait for a job no row tells."""
        return len({each.trainer for each in self.running if each.held})

    @property
    def expired(self) -> int:
        """Jobs in training whose lease has ended."""
        return sum(not each.held for each in self.running)

    @property
    def examples_per_second(self) -> float:
        """Of all that run."""
        return sum(each.progress.examples_per_second for each in self.running)


def overview(database: Database) -> Overview:
    """The jobs as they are now, by the database's clock."""
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
    """What Prometheus is told of the jobs, read from the database when asked."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The figures as they are now; they are the same wherever one asks."""
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
