"""The jobs as workers see them: whose turn it is, and who may write about a job.

Workers may be many, on machines that know nothing of each other, and each may die or stand still
at any moment. So a worker holds a job by a lease, which ends by the database's clock unless it is
renewed; then another worker is given the job, with a fencing token one higher. Whatever a worker
writes is refused unless its token is the newest, in the transaction that would write it: one that
was asleep while its lease ended can do no harm when it wakes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

from sottovoce.cloud.job import Example, Job, Progress, State
from sottovoce.cloud.jobs import examples
from sottovoce.cloud.jobs.continuing import check_unmoved
from sottovoce.cloud.jobs.records import job_of, move
from sottovoce.cloud.state.adapters import AdapterFiles, install
from sottovoce.cloud.state.database import Database, Row, Transaction
from sottovoce.core.errors import NotReady

__all__ = ["LEASE_SECONDS", "Lease", "LeaseLost", "Queue"]

LEASE_SECONDS: Final = 10.0
RECENT_HOURS: Final = 24
_HOUR: Final = 3600.0
_CLAIMS_AT_ONCE: Final = 128
"""Tenants whose turn it may be: there are more than workers that claim at the same moment."""


class LeaseLost(NotReady):
    """Another worker has the job, or it has ended."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a worker shows for a job: the token is higher than all that were given before."""

    job: str
    token: int


class Queue:
    """The queued and running jobs of a database.

    Args:
        database: where they are.
        seconds: that a lease lasts after it was given or renewed.
    """

    def __init__(self, database: Database, seconds: float = LEASE_SECONDS) -> None:
        self.database = database
        self.seconds = seconds

    def claim(self, owner: str) -> tuple[Job, Lease] | None:
        """The next job to train: one whose worker's lease has ended, then that of the tenant who
        had least of the trainers' time in the last day (a job counts as a second at least), then
        the oldest.

        Args:
            owner: who claims. A name in use twice must mean that the first user is dead: its jobs
                are given to the second at once.
        """
        with self.database.read() as transaction:
            if not _is_anything(transaction, owner):
                return None  # without a writer's lock: this is asked for as long as nothing comes
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
        """Has the lease last from now on; one that has ended too, if nobody has the job yet.

        Raises:
            LeaseLost: see there; so does all that follows.
        """
        self._write(lease)

    def release(self, lease: Lease) -> None:
        """Puts the job down in order, for whoever comes next."""
        with self.database.write() as transaction:
            _held(transaction, lease, lock=True)
            transaction.change(
                "UPDATE jobs SET attempts = 0, lease_ends = 0 WHERE id = :job", job=lease.job
            )
            transaction.announce()

    def begin(self, lease: Lease, labels: tuple[str, ...]) -> None:
        """Records the labels in the order of the outputs."""
        self._write(lease, labels=json.dumps(labels))

    def report(self, lease: Lease, progress: Progress, trained: float = 0.0) -> None:
        """Records progress, and the seconds of training it took so far."""
        with self.database.write() as transaction:
            row = self._set(
                transaction, lease, progress=json.dumps(asdict(progress)), trained=trained
            )
            more = max(trained, 1.0) - max(row["trained"], 1.0)
            _charge(transaction, row["tenant"], more)

    def trained(self, lease: Lease) -> float:
        """Seconds of training so far, of all rounds and whoever reported them."""
        with self.database.read() as transaction:
            return float(_held(transaction, lease)["trained"])

    def keep(self, lease: Lease, checkpoint: str) -> str:
        """Records the object that the job goes on from, whoever does. Gives the one before ("" if
        there was none), and forgets failed attempts: the job got further."""
        with self.database.write() as transaction:
            row = self._set(transaction, lease, checkpoint=checkpoint, attempts=0)
        return str(row["checkpoint"])

    def checkpoint(self, lease: Lease) -> str:
        """The object that the job goes on from; "" if there is none."""
        with self.database.read() as transaction:
            return str(_held(transaction, lease)["checkpoint"])

    def stop_requested(self, lease: Lease) -> bool:
        """Whether the job is to be cancelled."""
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
        """Ends the job, drops its examples and gives the adapter its name, all at once.

        Args:
            lease: of the job.
            state: in which it ends.
            message: for its tenant.
            adapter: what was trained.
            base: what it went on from, if the job does, by `AdapterFiles.sha256`.

        Returns:
            Whether it was deleted meanwhile and is now to be purged; the adapter then gets no name.

        Raises:
            NotReady: ``state`` ends no job, or what it went on from is gone.
            BaseMoved: what it went on from is not what the adapter is now.
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
        """A job's examples in upload order; none if it has ended.

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
            return examples.read(transaction, cipher, job_id, number)

    def _write(self, lease: Lease, **values: object) -> None:
        with self.database.write() as transaction:
            self._set(transaction, lease, **values)

    def _set(self, transaction: Transaction, lease: Lease, **values: object) -> Row:
        """Who writes is alive: it renews the lease too. Gives the row as it was."""
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
    """The job to be claimed, locked: those that others claim at this moment are passed over."""
    left = transaction.lock_free(
        "SELECT * FROM jobs WHERE state = 'RUNNING' AND "
        "(lease_ends <= :now OR lease_owner = :owner) ORDER BY number LIMIT 1",
        now=transaction.now(),
        owner=owner,
    )
    if left:
        return left[0]
    # Only what waits is looked at: what has ended is neither counted nor met.
    turns = transaction.rows(
        "SELECT tenant FROM jobs AS waiting WHERE state = 'QUEUED' GROUP BY tenant ORDER BY "
        "(SELECT coalesce(sum(seconds), 0) FROM usage "
        "WHERE usage.tenant = waiting.tenant AND hour >= :hour), min(number) LIMIT :most",
        hour=int(transaction.now() // _HOUR) - RECENT_HOURS,
        most=_CLAIMS_AT_ONCE,
    )
    for turn in turns:
        oldest = transaction.lock_free(
            # What goes on from an adapter waits for whoever trains it, or would train twice.
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
    """Counts trainers' time by tenant and hour, so that a day's sum has few rows at any load."""
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
