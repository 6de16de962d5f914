"""Conversion between jobs and database rows, and the state transition."""

from __future__ import annotations

import json

from sottovoce.cloud.job import (
    FINAL,
    TRANSITIONS,
    Job,
    Progress,
    Release,
    State,
    TrainingOptions,
)
from sottovoce.cloud.jobs.examples import drop
from sottovoce.cloud.state.database import Row, Transaction
from sottovoce.core.errors import NotFound, NotReady

__all__ = ["find", "job_of", "move"]


def job_of(row: Row) -> Job:
    """Return the job in a row of ``jobs``."""
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
        trace=row["trace"],
    )


def find(
    transaction: Transaction, job_id: str, tenant: str | None = None, *, lock: bool = False
) -> Row:
    """Return the row of a job that was not deleted; ``tenant`` None finds any tenant's.

    Args:
        lock: lock the row, because a decision depends on it.

    Raises:
        NotFound: the job does not exist, or belongs to another tenant.
    """
    asked = transaction.lock if lock else transaction.row
    row = asked("SELECT * FROM jobs WHERE id = :job AND deleted = 0", job=job_id)
    if row is not None and tenant in (None, row["tenant"]):
        return row
    if tenant is None:
        raise NotFound("no such job", fix="see `sotto-cloud jobs list`", subject=job_id)
    raise NotFound(
        "no such job for this tenant", fix="list yours with `sotto status`", subject=job_id
    )


def move(transaction: Transaction, job: Job, state: State, message: str = "") -> Job:
    """Return the job in its new state; the caller has locked its row.

    Raises:
        NotReady: `TRANSITIONS` does not allow the change.
    """
    if state not in TRANSITIONS[job.state]:
        raise NotReady(
            f"a job that is {job.state} cannot become {state}",
            fix="look at its state with `sotto-cloud jobs show`",
            subject="state",
        )
    if state in FINAL:
        # The cloud deletes released texts once they are not needed.
        drop(transaction, job.id)
    (row,) = transaction.rows(
        "UPDATE jobs SET state = :state, message = :message, updated = :now WHERE id = :job "
        "RETURNING *",
        state=str(state),
        message=message,
        now=transaction.now(),
        job=job.id,
    )
    return job_of(row)
