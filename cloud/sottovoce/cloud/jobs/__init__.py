"""Jobs as tenants and the provider see them, and the changes they may make.

A job moves only along ``TRANSITIONS``, inside one transaction that locks the job and checks its
current state. So servers and workers cannot disagree about a job.
"""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace

from sottovoce.cloud.config import ServerLimits, check_name
from sottovoce.cloud.job import (
    FINAL,
    Job,
    Release,
    State,
    TrainingOptions,
    check_labels,
    check_number,
)
from sottovoce.cloud.jobs import records
from sottovoce.cloud.jobs.records import check_base, find, job_of, move
from sottovoce.cloud.store.adapters import uninstall
from sottovoce.cloud.store.database import Database, Row, Transaction
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import InvalidInput, NotReady, QuotaExceeded
from sottovoce.core.rpc import telemetry
from sottovoce.core.rpc.limits import FEWEST_PUBLIC

_HOUR = 3600.0
ABANDONED_SECONDS = 30 * 24 * _HOUR
_FORGOTTEN_AT_ONCE = 1000
LONGEST_NAME = 128
PAGE_BYTES = 1 << 20
"""Bytes of labels after which a page ends: a job may have 1,000 labels, and a message holds 4 MiB.
"""
_ABANDONED = (
    "SELECT * FROM jobs WHERE state = 'UPLOADING' AND deleted = 0 AND "
    "touched < (SELECT awake FROM clock) - :month"
)
_TOKEN = re.compile(r"[0-9]{1,18}")  # the range of a database integer


def _check(release: Release) -> None:
    """Check the fields that every job needs; training settings are checked on arrival."""
    wrong = ""
    if not 0.0 < release.eta < float("inf"):
        wrong, fix = "release.eta", "a finite number above 0"
    elif not release.mechanism:
        wrong, fix = "release.mechanism", "name the mechanism; there is none for clear text"
    for name in ("level", "policy"):
        given = getattr(release, name)
        if len(given) > LONGEST_NAME or "\0" in given:
            wrong, fix = f"release.{name}", f"at most {LONGEST_NAME} characters, none of them NUL"
    if wrong:
        raise InvalidInput(f"{wrong} is out of range", fix=f"give {fix}", subject=wrong)


class Jobs:
    """The jobs in a database. ``tenant`` None means the provider, with access to all jobs."""

    def __init__(self, database: Database, limits: ServerLimits | None = None) -> None:
        self.database = database
        self.limits = limits or ServerLimits()

    def create(
        self,
        tenant: str,
        request_id: str,
        adapter: str,
        training: TrainingOptions,
        release: Release,
    ) -> Job:
        """Create a job, or return the earlier job with the same request id.

        Raises:
            InvalidInput: a bad name or setting, or the request id was used for a different job.
            QuotaExceeded: too many unfinished jobs. NotReady: see `check_base`.
        """
        check_name(adapter, "adapter")
        if not 1 <= len(request_id) <= 128 or "\0" in request_id:
            raise InvalidInput(
                "the request id is missing, too long, or has a NUL in it",
                fix="send 1 to 128 characters, the same on every retry",
                subject="request_id",
            )
        limits = quotas.of(self.database, tenant, self.limits)
        _check(release)
        with self.database.write() as transaction:
            quotas.lock(transaction, tenant)
            row = transaction.row(
                "SELECT * FROM jobs WHERE tenant = :tenant AND request_id = :request_id",
                tenant=tenant,
                request_id=request_id,
            )
            if row is None:
                if training.continues:
                    check_base(transaction, tenant, adapter, training)
                _check_unfinished(transaction, tenant, limits)
                _forget(transaction, tenant, limits.past_jobs)
                (row,) = transaction.rows(
                    "INSERT INTO jobs (id, tenant, request_id, adapter, state, training, release, "
                    "created, updated, touched, continues) VALUES (:id, :tenant, :request_id, "
                    ":adapter, 'UPLOADING', :training, :release, :now, :now, "
                    "(SELECT awake FROM clock), :continues) RETURNING *",
                    id=secrets.token_hex(12),
                    tenant=tenant,
                    request_id=request_id,
                    adapter=adapter,
                    training=json.dumps(asdict(training)),
                    release=json.dumps(asdict(release)),
                    now=transaction.now(),
                    continues=int(training.continues),
                )
        if not row["deleted"]:
            job = job_of(row)
            if (job.adapter, job.training, job.release) == (adapter, training, release):
                return job
        raise InvalidInput(
            "this request id was used for another job",
            fix="take a new request id for a new job",
            subject="request_id",
        )

    def get(self, job_id: str, tenant: str | None = None) -> Job:
        """Return a job.

        Raises:
            NotFound: the job does not exist, or belongs to another tenant.
        """
        with self.database.read() as transaction:
            return job_of(find(transaction, job_id, tenant))

    def page(
        self,
        tenant: str | None = None,
        *,
        state: State | None = None,
        page_size: int = 50,
        page_token: str = "",
    ) -> tuple[list[Job], str]:
        """Return a page of jobs, newest first, and the next page's token ("" at the end).

        Jobs can be limited to one tenant and to one state.

        Raises:
            InvalidInput: this server did not issue the token.
        """
        if page_token and not _TOKEN.fullmatch(page_token):
            raise InvalidInput(
                "unknown page token",
                fix="use the token of the page before, or none",
                subject="page_token",
            )
        size = min(page_size or 50, 200)
        mine = "" if tenant is None else "AND tenant = :tenant "
        mine += "" if state is None else "AND state = :state "
        wanted = None if state is None else str(state)
        before = int(page_token or 2**62)
        with self.database.read() as transaction:
            sizes = transaction.rows(
                "SELECT number, length(labels) AS taken FROM jobs WHERE deleted = 0 "
                f"AND number < :before {mine}ORDER BY number DESC LIMIT :most",
                tenant=tenant,
                state=wanted,
                before=before,
                most=size + 1,
            )
            shown = _fitting(sizes[:size])
            if not shown:
                return [], ""
            rows = transaction.rows(
                "SELECT * FROM jobs WHERE deleted = 0 AND number < :before AND number >= :last "
                f"{mine}ORDER BY number DESC",
                tenant=tenant,
                state=wanted,
                before=before,
                last=shown[-1],
            )
        token = str(shown[-1]) if len(shown) < len(sizes) else ""
        return [job_of(row) for row in rows], token

    def every(self, tenant: str | None = None) -> Iterator[Job]:
        """Yield all jobs, newest first, optionally of one tenant."""
        token = ""
        while True:
            page, token = self.page(tenant, page_size=200, page_token=token)
            yield from page
            if not token:
                return

    def start(self, job_id: str, tenant: str, total: int) -> Job:
        """Queue an uploaded job; a job already started is unchanged.

        Raises:
            NotReady: the server holds another number of examples, they cannot train (see
                `check_labels`), public texts are too few, or the job was cancelled.
        """
        limits = quotas.of(self.database, tenant, self.limits)
        self.database.keys.fetch(self.database, job_id)
        with self.database.write() as transaction:
            job = job_of(find(transaction, job_id, tenant, lock=True))
            if job.state == State.CANCELLED:
                raise NotReady("the job was cancelled", fix="create a new job", subject="state")
            if job.state != State.UPLOADING:
                return job
            if job.next_sequence != total:
                raise NotReady(
                    f"the job holds {job.next_sequence} examples, not {total}",
                    fix="upload from next_sequence on, then start",
                    subject="examples",
                )
            if job.training.writes:
                check_number(total)
                return _queue(transaction, job)
            labels: Counter[str] = Counter()
            if total:
                cipher = self.database.keys.of(transaction, job_id)
                labels = records.labels(transaction, cipher, job_id)
            public = labels.pop("", 0)
            check_labels(labels, limits.labels)
            if job.training.continues:
                check_base(transaction, tenant, job.adapter, job.training, labels)
            if job.training.pate and public < FEWEST_PUBLIC:
                raise NotReady(
                    f"the job holds {public} public texts, PATE needs at least {FEWEST_PUBLIC}",
                    fix="add examples without a label and customise again",
                    subject="examples",
                )
            return _queue(transaction, job)

    def cancel(self, job_id: str, tenant: str | None = None) -> Job:
        """Cancel a job; a running job ends within a step.

        Idempotent: a job that has ended stays as it is.
        """
        with self.database.write() as transaction:
            job = job_of(find(transaction, job_id, tenant, lock=True))
            if job.state in FINAL:
                return job
            if job.state == State.RUNNING:
                transaction.change(
                    "UPDATE jobs SET cancel_requested = 1 WHERE id = :job", job=job.id
                )
                return replace(job, cancel_requested=True)
            cancelled = move(transaction, job, State.CANCELLED)
        self.database.scrub()
        return cancelled

    def delete(self, job_id: str, tenant: str | None = None) -> bool:
        """Hide the job and its adapter; return whether it may be purged now.

        False means that the job is running. The worker then purges the job after stopping it.
        """
        with self.database.write() as transaction:
            job = job_of(find(transaction, job_id, tenant, lock=True))
            transaction.change(
                "UPDATE jobs SET deleted = 1, cancel_requested = 1 WHERE id = :job", job=job.id
            )
            uninstall(transaction, job.id)
            if job.state in FINAL or job.state == State.RUNNING:
                return job.state in FINAL
            move(transaction, job, State.CANCELLED)
            return True

    def purge(self, job_id: str) -> None:
        """Forget a deleted job; its request id stays taken, without content."""
        with self.database.write() as transaction:
            records.drop(transaction, job_id)
            transaction.change(
                "UPDATE jobs SET adapter = '', labels = '[]', message = '', progress = '{}', "
                "checkpoint = '', trace = '', purged = 1 WHERE id = :job AND deleted = 1",
                job=job_id,
            )
        self.database.scrub()

    def unpurged(self) -> list[Job]:
        """Return deleted and ended jobs that still have files or rows.

        The process that was to remove them died first.
        """
        with self.database.read() as transaction:
            rows = transaction.rows("SELECT * FROM jobs WHERE deleted = 1 AND purged = 0")
        return [job for job in map(job_of, rows) if job.state in FINAL]

    def remembered(self, job_id: str) -> bool:
        """Return whether the job is remembered, so that its files are needed or will be removed.

        A forgotten job stays forgotten.
        """
        with self.database.read() as transaction:
            row = transaction.row("SELECT 1 FROM jobs WHERE id = :job AND purged = 0", job=job_id)
        return row is not None

    def unfinished(self, job_id: str) -> bool:
        """Return whether the job may still need its examples; false is final."""
        with self.database.read() as transaction:
            row = transaction.row(
                "SELECT 1 FROM jobs WHERE id = :job AND "
                "state IN ('UPLOADING', 'QUEUED', 'RUNNING')",
                job=job_id,
            )
        return row is not None

    def untidy(self) -> list[tuple[Job, int]]:
        """List ended jobs that may hold more than an adapter, with their last lease's token."""
        with self.database.read() as transaction:
            rows = transaction.rows(
                "SELECT * FROM jobs WHERE untidy = 1 AND "
                "state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') AND deleted = 0"
            )
        return [(job_of(row), row["fence"]) for row in rows]

    def tidied(self, job_id: str) -> None:
        """Record that only the job's adapter is left."""
        with self.database.write() as transaction:
            transaction.change(
                "UPDATE jobs SET checkpoint = '', untidy = 0 WHERE id = :job", job=job_id
            )

    def give_up_abandoned(self) -> None:
        """Cancel jobs that received no upload during a month of the cloud's running time.

        Their data is no longer needed. Clock jumps and downtime do not count.
        """
        with self.database.read() as transaction:
            (clock,) = transaction.rows("SELECT seen FROM clock")
            due = abs(transaction.now() - clock["seen"]) >= _HOUR
        if due:
            with self.database.write() as transaction:
                transaction.change(  # one worker counts the hour; later workers find it counted
                    "UPDATE clock SET awake = awake + :hour, seen = :now "
                    "WHERE abs(:now - seen) >= :hour",
                    hour=_HOUR,
                    now=transaction.now(),
                )
        with self.database.read() as transaction:
            if not transaction.rows(_ABANDONED, month=ABANDONED_SECONDS):
                return
        with self.database.write() as transaction:
            # Skip jobs that were started, deleted or locked since then.
            for row in transaction.lock_free(_ABANDONED, month=ABANDONED_SECONDS):
                message = "nothing was uploaded for 30 days; customise again"
                move(transaction, job_of(row), State.CANCELLED, message)
        self.database.scrub()


def _check_unfinished(transaction: Transaction, tenant: str, limits: ServerLimits) -> None:
    (found,) = transaction.rows(
        "SELECT count(*) AS n FROM jobs WHERE tenant = :tenant AND deleted = 0 AND state IN "
        "('UPLOADING', 'QUEUED', 'RUNNING')",
        tenant=tenant,
    )
    if found["n"] >= limits.unfinished_jobs:
        raise QuotaExceeded(
            f"{found['n']} jobs are unfinished, which is the limit",
            fix="wait for one to finish, or cancel or delete one",
            subject="unfinished_jobs",
        )


def _fitting(sizes: list[Row]) -> list[int]:
    """Return the numbers of the jobs that fit on a page: at least one."""
    taken = 0
    numbers: list[int] = []
    for row in sizes:
        taken += row["taken"]
        if numbers and taken > PAGE_BYTES:
            break
        numbers.append(row["number"])
    return numbers


def _queue(transaction: Transaction, job: Job) -> Job:
    transaction.announce()
    transaction.change(
        "UPDATE jobs SET trace = :trace WHERE id = :job", trace=telemetry.here(), job=job.id
    )
    return move(transaction, job, State.QUEUED)


def _forget(transaction: Transaction, tenant: str, most: int) -> None:
    """Bound the space that a tenant's past jobs take, because every listing reads them.

    Only jobs older than the tenant's newest ``most`` are affected. Jobs without files are forgotten
    at once. Others are marked deleted, unless their adapter is in use, and the worker removes them.
    """
    last = transaction.row(
        "SELECT number FROM jobs WHERE tenant = :tenant ORDER BY number DESC LIMIT 1 OFFSET :most",
        tenant=tenant,
        most=most,
    )
    if last is None:
        return
    old = {"tenant": tenant, "last": last["number"], "some": _FORGOTTEN_AT_ONCE}
    transaction.change(
        "DELETE FROM jobs WHERE number IN (SELECT number FROM jobs WHERE tenant = :tenant AND "
        "number <= :last AND (purged = 1 OR (state = 'CANCELLED' AND fence = 0)) LIMIT :some)",
        **old,
    )
    transaction.change(
        "UPDATE jobs SET deleted = 1 WHERE number IN (SELECT number FROM jobs WHERE "
        "tenant = :tenant AND number <= :last AND deleted = 0 AND state IN "
        "('SUCCEEDED', 'FAILED', 'CANCELLED') AND id NOT IN (SELECT job FROM adapters) "
        "LIMIT :some)",
        **old,
    )
