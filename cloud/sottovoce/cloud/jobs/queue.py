"""The job queue as workers see it: claims, leases and progress.

Many workers may run on separate machines, and any worker may die or stall at any moment. So a
worker holds a job by a lease. The lease ends by the database's clock unless the worker renews it.
The next worker gets the job with a fencing token one higher. Every write checks, in its own
transaction, that the worker's token is the newest. So a worker that stalls past its lease can do no
harm later.

`overview` counts jobs by state, queued jobs and active trainers, without naming tenants. Servers,
fronts and trainers share one database, and all export these figures (`metrics.JobsCollector`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from sottovoce.cloud.job import Example, Job, Progress, State
from sottovoce.cloud.jobs import records
from sottovoce.cloud.jobs.records import check_unmoved, job_of, move
from sottovoce.cloud.store.adapters import AdapterFiles, install
from sottovoce.cloud.store.database import Database, Row, Transaction
from sottovoce.core.errors import NotReady

LEASE_SECONDS: Final = 10.0
RECENT_HOURS: Final = 24
_HOUR: Final = 3600.0
_CLAIMS_AT_ONCE: Final = 128
"""Candidate tenants of a claim: more than the workers that claim at the same moment."""


class LeaseLost(NotReady):
    """Another worker has the job, or it has ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker's claim on a job; its token is higher than all earlier ones."""

    job: str
    token: int


class Queue:
    """The queued and running jobs of a database.

    Args:
        seconds: a lease's lifetime after each renewal.
    """

    def __init__(self, database: Database, seconds: float = LEASE_SECONDS) -> None:
        self.database = database
        self.seconds = seconds

    def claim(self, owner: str) -> tuple[Job, Lease] | None:
        """Claim the next job to train.

        Jobs with an expired lease come first. Next come jobs of the tenant with the least training
        time in the last day, where each job counts at least one second. The oldest
        job of a tenant comes first.

        Args:
            owner: the claiming worker's name. Reusing a name must mean that the first user is dead:
                its jobs go to the second user at once.
        """
        with self.database.read() as transaction:
            if not _is_anything(transaction, owner):
                return None  # no write lock, because idle workers poll here
        with self.database.write() as transaction:
            row = _next(transaction, owner)
            if row is None:
                return None
            job, now = job_of(row), transaction.now()
            if job.state == State.QUEUED:
                job = move(transaction, job, State.RUNNING)
                _charge(transaction, job.tenant, 1.0)
            (given,) = transaction.rows(
                "UPDATE jobs SET attempts = attempts + 1, fence = fence + 1, untidy = 1, "
                "lease_owner = :owner, lease_ends = :ends WHERE id = :job RETURNING fence",
                owner=owner,
                ends=now + self.seconds,
                job=job.id,
            )
            return job, Lease(job.id, given["fence"])

    def renew(self, lease: Lease) -> None:
        """Renew the lease from now on, even an expired one that no other worker has taken.

        Raises:
            LeaseLost: see there. All methods below raise it too.
        """
        self._write(lease)

    def release(self, lease: Lease) -> None:
        """Release the job in order, so that the next worker can claim it."""
        with self.database.write() as transaction:
            _held(transaction, lease, lock=True)
            transaction.change(
                "UPDATE jobs SET attempts = 0, lease_ends = 0 WHERE id = :job", job=lease.job
            )
            transaction.announce()

    def begin(self, lease: Lease, labels: tuple[str, ...]) -> None:
        """Record the labels in the order of the outputs."""
        self._write(lease, labels=json.dumps(labels))

    def report(self, lease: Lease, progress: Progress, trained: float = 0.0) -> None:
        """Record progress, and the seconds of training so far."""
        with self.database.write() as transaction:
            row = self._set(
                transaction, lease, progress=json.dumps(asdict(progress)), trained=trained
            )
            more = max(trained, 1.0) - max(row["trained"], 1.0)
            _charge(transaction, row["tenant"], more)

    def trained(self, lease: Lease) -> float:
        """Return the seconds of training so far, over all rounds and workers."""
        with self.database.read() as transaction:
            return float(_held(transaction, lease)["trained"])

    def keep(self, lease: Lease, checkpoint: str) -> str:
        """Record the checkpoint object that the job resumes from.

        Returns the previous checkpoint ("" if there was none). Resets the failed attempts, because
        the job made progress.
        """
        with self.database.write() as transaction:
            row = self._set(transaction, lease, checkpoint=checkpoint, attempts=0)
        return str(row["checkpoint"])

    def checkpoint(self, lease: Lease) -> str:
        """Return the checkpoint object that the job resumes from; "" if there is none."""
        with self.database.read() as transaction:
            return str(_held(transaction, lease)["checkpoint"])

    def stop_requested(self, lease: Lease) -> bool:
        """Return whether the job is to be cancelled."""
        with self.database.read() as transaction:
            return bool(_held(transaction, lease)["cancel_requested"])

    def finish(
        self,
        lease: Lease,
        state: State,
        message: str = "",
        adapter: AdapterFiles | None = None,
        base: str = "",
    ) -> bool:
        """End the job, drop its examples and give the adapter its name, in one transaction.

        Args:
            base: `AdapterFiles.sha256` of the adapter that the job started from, if any.

        Returns:
            Whether the job was deleted meanwhile and must now be purged; the adapter then gets no
                name.

        Raises:
            NotReady: ``state`` is not a final state, or the base adapter is gone.
            BaseMoved: the adapter is no longer the one that the job started from.
        """
        with self.database.write() as transaction:
            row = _held(transaction, lease, lock=True)
            if base and not row["deleted"]:
                check_unmoved(transaction, job_of(row), base)
            job = move(transaction, job_of(row), state, message)
            if adapter is not None and not row["deleted"]:
                install(
                    transaction,
                    job.tenant,
                    job.adapter,
                    job=job.id,
                    folder=adapter.name(self.database.objects),
                    sha256=adapter.sha256,
                )
        self.database.scrub()
        return bool(row["deleted"])

    def examples(self, job_id: str) -> list[Example]:
        """Return a job's examples in upload order; none if it has ended.

        Raises:
            DataLoss: they were altered, some are missing, or their key is gone.
            Unavailable: see `Keys.of`.
        """
        self.database.keys.fetch(self.database, job_id)
        with self.database.read() as transaction:
            row = transaction.row(
                "SELECT next_sequence FROM jobs WHERE id = :job AND "
                "state IN ('UPLOADING', 'QUEUED', 'RUNNING')",
                job=job_id,
            )
            number = row["next_sequence"] if row else 0
            if not number:
                return []
            cipher = self.database.keys.of(transaction, job_id)
            return records.read(transaction, cipher, job_id, number)

    def _write(self, lease: Lease, **values: object) -> None:
        with self.database.write() as transaction:
            self._set(transaction, lease, **values)

    def _set(self, transaction: Transaction, lease: Lease, **values: object) -> Row:
        """Update the row and renew the lease; return the row as it was."""
        row, now = _held(transaction, lease, lock=True), transaction.now()
        if values:
            values["updated"] = now
        values["lease_ends"] = now + self.seconds
        names = ", ".join(f"{name} = :{name}" for name in values)
        transaction.change(f"UPDATE jobs SET {names} WHERE id = :job", **values, job=lease.job)
        return row


def _held(transaction: Transaction, lease: Lease, *, lock: bool = False) -> Row:
    asked = transaction.lock if lock else transaction.row
    row = asked(
        "SELECT * FROM jobs WHERE id = :job AND fence = :token AND state = 'RUNNING'",
        job=lease.job,
        token=lease.token,
    )
    if row is None:
        raise LeaseLost("the job is no longer this worker's", fix="leave it alone", subject="lease")
    return row


def _is_anything(transaction: Transaction, owner: str) -> bool:
    found = transaction.row(
        "SELECT 1 FROM jobs WHERE state IN ('QUEUED', 'RUNNING') AND "
        "(state = 'QUEUED' OR lease_ends <= :now OR lease_owner = :owner) LIMIT 1",
        now=transaction.now(),
        owner=owner,
    )
    return found is not None


def _next(transaction: Transaction, owner: str) -> Row | None:
    """Return the next job's row, locked; skip rows that other workers are claiming."""
    left = transaction.lock_free(
        "SELECT * FROM jobs WHERE state = 'RUNNING' AND "
        "(lease_ends <= :now OR lease_owner = :owner) ORDER BY number LIMIT 1",
        now=transaction.now(),
        owner=owner,
    )
    if left:
        return left[0]
    # Only waiting jobs are read; ended jobs are neither counted nor locked.
    turns = transaction.rows(
        "SELECT tenant FROM jobs AS waiting WHERE state = 'QUEUED' GROUP BY tenant ORDER BY "
        "(SELECT coalesce(sum(seconds), 0) FROM usage "
        "WHERE usage.tenant = waiting.tenant AND hour >= :hour), min(number) LIMIT :most",
        hour=int(transaction.now() // _HOUR) - RECENT_HOURS,
        most=_CLAIMS_AT_ONCE,
    )
    for turn in turns:
        oldest = transaction.lock_free(
            # A continuing job waits while its adapter is in training, to avoid training twice.
            "SELECT * FROM jobs WHERE state = 'QUEUED' AND tenant = :tenant AND "
            "(continues = 0 OR adapter NOT IN "
            "(SELECT adapter FROM jobs WHERE state = 'RUNNING' AND tenant = :tenant)) "
            "ORDER BY number LIMIT 1",
            tenant=turn["tenant"],
        )
        if oldest:
            return oldest[0]
    return None


def _charge(transaction: Transaction, tenant: str, seconds: float) -> None:
    """Count training time by tenant and hour, so that a day's sum reads few rows."""
    hour = int(transaction.now() // _HOUR)
    transaction.change(
        "DELETE FROM usage WHERE tenant = :tenant AND hour < :hour",
        tenant=tenant,
        hour=hour - RECENT_HOURS,
    )
    transaction.change(
        "INSERT INTO usage (tenant, hour, seconds) VALUES (:tenant, :hour, :seconds) "
        "ON CONFLICT (tenant, hour) DO UPDATE SET seconds = usage.seconds + excluded.seconds",
        tenant=tenant,
        hour=hour,
        seconds=seconds,
    )


POLL_SECONDS: Final = 0.2


class Wakeup:
    """Reports news since creation or the last wait; no news is lost between waits."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen = database.news()

    def wait(self, seconds: float, unless: Callable[[], bool]) -> None:
        """Wait for news, for at most ``seconds``, or until ``unless`` returns true."""
        end = time.monotonic() + seconds
        while not unless() and time.monotonic() < end:
            seen = self._database.news()
            if seen != self._seen:
                self._seen = seen
                return
            time.sleep(POLL_SECONDS)


@dataclass(frozen=True, slots=True)
class Running:
    """A job that a trainer has claimed.

    Attributes:
        job: its id.
        trainer: the trainer's random name.
        lease_seconds: time left on the lease. At 0 or less, the trainer died or stalled, and
            another one may take the job.
        attempts: rounds since the job last made progress, including this one.
    """

    job: str
    trainer: str
    lease_seconds: float
    attempts: int
    progress: Progress

    @property
    def held(self) -> bool:
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
        return sum(not each.held for each in self.running)

    @property
    def examples_per_second(self) -> float:
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
