"""The jobs in the store: who may change them, and how.

A job moves only along ``TRANSITIONS``, inside one transaction that checks the
state it comes from, so server and worker cannot disagree about a job.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from sottovoce.cloud.config import Limits, check_name
from sottovoce.cloud.job import (
    FINAL,
    TRANSITIONS,
    Example,
    Job,
    Progress,
    Release,
    State,
    TrainingOptions,
    check_labels,
)
from sottovoce.cloud.jobs.wakeup import Wakeup
from sottovoce.cloud.state import quotas
from sottovoce.cloud.state.database import Store
from sottovoce.core.errors import InvalidInput, NotFound, NotReady, QuotaExceeded

__all__ = ["Jobs"]

RECENT_SECONDS = 24 * 3600.0
ABANDONED_SECONDS = 30 * 24 * 3600.0
LONGEST_NAME = 128
PAGE_BYTES = 1 << 20
"""Of labels, after which a page ends: a job may have a thousand, and a message holds 4 MiB."""
_TOKEN = re.compile(r"[0-9]{1,18}")  # what SQLite's integers hold


def _job(row: sqlite3.Row) -> Job:
    return Job(
        id=row["id"],
        tenant=row["tenant"],
        adapter=row["adapter"],
        state=State(row["state"]),
        training=TrainingOptions(**json.loads(row["training"])),
        release=Release(**json.loads(row["release"])),
        next_sequence=row["next_sequence"],
        attempts=row["attempts"],
        cancel_requested=bool(row["cancel_requested"]),
        created=row["created"],
        updated=row["updated"],
        message=row["message"],
        labels=tuple(json.loads(row["labels"])),
        progress=Progress(**json.loads(row["progress"])),
        bytes=row["bytes"],
        trained=row["trained"],
    )


def _missing(job_id: str, tenant: str | None) -> NotFound:
    """The one answer for a job that is not there and one that is another's."""
    if tenant is None:
        return NotFound("no such job", fix="see `sotto-cloud jobs list`", subject=job_id)
    return NotFound(
        "no such job for this tenant", fix="list yours with `sotto status`", subject=job_id
    )


def _impossible(before: State, after: State) -> NotReady:
    return NotReady(
        f"a job that is {before} cannot become {after}",
        fix="look at its state with `sotto-cloud jobs show`",
        subject="state",
    )


def _check(release: Release) -> None:
    """What no job can be without; its training settings were checked where they came in."""
    wrong = ""
    if not 0.0 < release.eta < float("inf"):
        wrong, fix = "release.eta", "a finite number above 0"
    elif not release.mechanism:
        wrong, fix = "release.mechanism", "name the mechanism; there is none for clear text"
    for name in ("level", "policy"):
        if len(getattr(release, name)) > LONGEST_NAME:
            wrong, fix = f"release.{name}", f"at most {LONGEST_NAME} characters"
    if wrong:
        raise InvalidInput(f"{wrong} is out of range", fix=f"give {fix}", subject=wrong)


class Jobs:
    """The jobs in a store. ``tenant`` None means the provider, who sees all."""

    def __init__(self, store: Store, limits: Limits | None = None) -> None:
        self.store = store
        self.limits = limits or Limits()

    # What tenants do -------------------------------------------------------

    def create(
        self,
        tenant: str,
        request_id: str,
        adapter: str,
        training: TrainingOptions,
        release: Release,
    ) -> Job:
        """A new job, or the one made earlier with the same request id.

        Raises:
            InvalidInput: a bad name or setting, or a request id used for another.
            QuotaExceeded: too many unfinished jobs.
        """
        check_name(adapter, "adapter")
        if not 1 <= len(request_id) <= 128:
            raise InvalidInput(
                "the request id is missing or too long",
                fix="send 1 to 128 characters, the same on every retry",
                subject="request_id",
            )
        limits = quotas.of(self.store, tenant, self.limits)
        _check(release)
        wanted = (adapter, json.dumps(asdict(training)), json.dumps(asdict(release)))
        now = time.time()
        with self.store.write() as connection:
            row = connection.execute(
                "SELECT * FROM jobs WHERE tenant = ? AND request_id = ?", (tenant, request_id)
            ).fetchone()
            if row is None:
                (unfinished,) = connection.execute(
                    "SELECT count(*) FROM jobs WHERE tenant = ? AND NOT deleted AND state IN "
                    "('UPLOADING', 'QUEUED', 'RUNNING')",
                    (tenant,),
                ).fetchone()
                if unfinished >= limits.unfinished_jobs:
                    raise QuotaExceeded(
                        f"{unfinished} jobs are unfinished, which is the limit",
                        fix="wait for one to finish, or cancel or delete one",
                        subject="unfinished_jobs",
                    )
                row = connection.execute(
                    "INSERT INTO jobs (id, tenant, request_id, adapter, state, training, release, "
                    "created, updated) VALUES (?, ?, ?, ?, 'UPLOADING', ?, ?, ?, ?) RETURNING *",
                    (secrets.token_hex(12), tenant, request_id, *wanted, now, now),
                ).fetchone()
        if not row["deleted"]:
            job = _job(row)
            if (job.adapter, job.training, job.release) == (adapter, training, release):
                return job
        raise InvalidInput(
            "this request id was used for another job",
            fix="take a new request id for a new job",
            subject="request_id",
        )

    def get(self, job_id: str, tenant: str | None = None) -> Job:
        """A job.

        Raises:
            NotFound: no such job, or not this tenant's.
        """
        with self.store.read() as connection:
            return _job(self._row(connection, job_id, tenant))

    @staticmethod
    def _row(connection: sqlite3.Connection, job_id: str, tenant: str | None) -> sqlite3.Row:
        row: sqlite3.Row | None = connection.execute(
            "SELECT * FROM jobs WHERE id = ? AND NOT deleted", (job_id,)
        ).fetchone()
        if row is None or (tenant is not None and row["tenant"] != tenant):
            raise _missing(job_id, tenant)
        return row

    def page(
        self, tenant: str | None = None, *, page_size: int = 50, page_token: str = ""
    ) -> tuple[list[Job], str]:
        """Jobs, newest first, and the token of the next page ("" at the end).

        Raises:
            InvalidInput: a token this server did not give.
        """
        if page_token and not _TOKEN.fullmatch(page_token):
            raise InvalidInput(
                "unknown page token",
                fix="use the token of the page before, or none",
                subject="page_token",
            )
        size = min(page_size or 50, 200)
        found: list[sqlite3.Row] = []
        taken = 0
        with self.store.read() as connection:
            for row in connection.execute(
                "SELECT * FROM jobs WHERE NOT deleted AND (?1 IS NULL OR tenant = ?1) "
                "AND number < ?2 ORDER BY number DESC LIMIT ?3",
                (tenant, int(page_token or 2**62), size + 1),
            ):
                taken += len(row["labels"])
                if len(found) == size or (found and taken > PAGE_BYTES):
                    return [_job(each) for each in found], str(found[-1]["number"])
                found.append(row)
        return [_job(row) for row in found], ""

    def start(self, job_id: str, tenant: str, total: int) -> Job:
        """Queues an uploaded job; a job that was started already stays as it is.

        Raises:
            NotReady: another number of examples is held, they cannot train (see
                ``data.check_labels``), or the job was cancelled.
        """
        with self.store.write() as connection:
            job = _job(self._row(connection, job_id, tenant))
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
            counts = connection.execute(
                "SELECT label, count(*) FROM examples WHERE job = ? GROUP BY label", (job_id,)
            ).fetchall()
            limits = quotas.of(self.store, tenant, self.limits)
            check_labels(Counter(dict(map(tuple, counts))), limits.labels)
            queued = self._move(connection, job, State.QUEUED)
        Wakeup(self.store.state).ring()
        return queued

    def cancel(self, job_id: str, tenant: str | None = None) -> Job:
        """Cancels; a running job is only asked to, and ends within a step.

        Idempotent; a job that has ended stays as it is.
        """
        with self.store.write() as connection:
            job = _job(self._row(connection, job_id, tenant))
            if job.state in FINAL:
                return job
            if job.state == State.RUNNING:
                connection.execute("UPDATE jobs SET cancel_requested = 1 WHERE id = ?", (job_id,))
                return _job(self._row(connection, job_id, tenant))
            cancelled = self._move(connection, job, State.CANCELLED)
        self.store.scrub()
        return cancelled

    def delete(self, job_id: str, tenant: str | None = None) -> bool:
        """Hides the job at once; True if its traces may be purged right away,
        False if it is running and the worker will do so when it has stopped."""
        with self.store.write() as connection:
            job = _job(self._row(connection, job_id, tenant))
            connection.execute(
                "UPDATE jobs SET deleted = 1, cancel_requested = 1 WHERE id = ?", (job_id,)
            )
            if job.state in FINAL or job.state == State.RUNNING:
                return job.state in FINAL
            self._move(connection, job, State.CANCELLED)
            return True

    def purge(self, job_id: str) -> None:
        """Forgets a deleted job; its request id stays taken, without content."""
        with self.store.write() as connection:
            connection.execute("DELETE FROM examples WHERE job = ?", (job_id,))
            connection.execute(
                "UPDATE jobs SET adapter = '', labels = '[]', message = '', progress = '{}', "
                "purged = 1 WHERE id = ? AND deleted",
                (job_id,),
            )
        self.store.scrub()

    def unpurged(self) -> list[Job]:
        """Jobs that were deleted and have ended, whose traces are still to be removed: whoever
        was to do so died first."""
        with self.store.read() as connection:
            rows = connection.execute("SELECT * FROM jobs WHERE deleted AND NOT purged").fetchall()
        return [job for job in map(_job, rows) if job.state in FINAL]

    # What the worker does --------------------------------------------------

    def claim(self) -> Job | None:
        """The next job to train: one left running first, then that of the tenant who had least
        of the trainer's time in the last day (a job counts as a second at least), then the oldest.
        """
        now = time.time()
        waiting = "SELECT 1 FROM jobs WHERE state IN ('RUNNING', 'QUEUED') LIMIT 1"
        with self.store.read() as connection:
            if connection.execute(waiting).fetchone() is None:
                return None  # without a writer's lock: this is asked for as long as nothing comes
        with self.store.write() as connection:
            row = connection.execute(
                "SELECT * FROM jobs WHERE state IN ('RUNNING', 'QUEUED') "
                "ORDER BY state = 'QUEUED', "
                "(SELECT coalesce(sum(max(trained, 1.0)), 0) FROM jobs AS past "
                "WHERE past.tenant = jobs.tenant AND past.started > ?), number LIMIT 1",
                (now - RECENT_SECONDS,),
            ).fetchone()
            if row is None:
                return None
            job = _job(row)
            if job.state == State.QUEUED:
                job = self._move(connection, job, State.RUNNING)
                connection.execute("UPDATE jobs SET started = ? WHERE id = ?", (now, job.id))
            connection.execute("UPDATE jobs SET attempts = attempts + 1 WHERE id = ?", (job.id,))
            return job

    def give_up_abandoned(self) -> None:
        """Cancels jobs nothing was uploaded to for a month: what they hold is no longer needed."""
        with self.store.read() as connection:
            rows = connection.execute(
                "SELECT id FROM jobs WHERE state = 'UPLOADING' AND NOT deleted AND updated < ?",
                (time.time() - ABANDONED_SECONDS,),
            ).fetchall()
        for row in rows:
            # Started or deleted since then, it stays as it is.
            with self.store.write() as connection:
                found = connection.execute(
                    "SELECT * FROM jobs WHERE id = ? AND state = 'UPLOADING'", (row["id"],)
                ).fetchone()
                if found is not None:
                    message = "nothing was uploaded for 30 days; customise again"
                    self._move(connection, _job(found), State.CANCELLED, message)
        if rows:
            self.store.scrub()

    def begin(self, job_id: str, labels: tuple[str, ...]) -> None:
        """Records the labels in the order of the outputs."""
        self._set(job_id, labels=json.dumps(labels))

    def report(self, job_id: str, progress: Progress, trained: float = 0.0) -> None:
        """Records progress, and the seconds of training it took so far."""
        self._set(job_id, progress=json.dumps(asdict(progress)), trained=trained)

    def forgive(self, job_id: str) -> None:
        """Forgets failed attempts: the job got further, or was put down in order."""
        self._set(job_id, attempts=0)

    def stop_requested(self, job_id: str) -> bool:
        """Whether the running job is to be cancelled."""
        with self.store.read() as connection:
            row = connection.execute(
                "SELECT cancel_requested FROM jobs WHERE id = ?", (job_id,)
            ).fetchone()
        return bool(row["cancel_requested"])

    def finish(self, job_id: str, state: State, message: str = "") -> bool:
        """Ends a running job and drops its examples; True if it was deleted
        meanwhile and is now to be purged."""
        with self.store.write() as connection:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job_id,)).fetchone()
            job = _job(row)
            if job.state != State.RUNNING or state not in FINAL:
                raise _impossible(job.state, state)
            self._move(connection, job, state, message)
        self.store.scrub()
        return bool(row["deleted"])

    def examples(self, job_id: str) -> list[Example]:
        """The job's examples in upload order."""
        with self.store.read() as connection:
            rows = connection.execute(
                "SELECT * FROM examples WHERE job = ? ORDER BY sequence", (job_id,)
            ).fetchall()
        return [
            Example(
                row["text"],
                row["label"],
                tuple(json.loads(row["plain_tokens"])),
                tuple(json.loads(row["plain_token_ids"])),
            )
            for row in rows
        ]

    def _set(self, job_id: str, **values: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in values)
        with self.store.write() as connection:
            connection.execute(
                f"UPDATE jobs SET {names}, updated = ? WHERE id = ?",
                (*values.values(), time.time(), job_id),
            )

    @staticmethod
    def _move(connection: sqlite3.Connection, job: Job, state: State, message: str = "") -> Job:
        if state not in TRANSITIONS[job.state]:
            raise _impossible(job.state, state)
        if state in FINAL:
            # The cloud keeps released texts no longer than it needs them.
            connection.execute("DELETE FROM examples WHERE job = ?", (job.id,))
        row = connection.execute(
            "UPDATE jobs SET state = ?, message = ?, updated = ? WHERE id = ? RETURNING *",
            (state, message, time.time(), job.id),
        ).fetchone()
        return _job(row)
