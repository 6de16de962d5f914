"""Jobs are cancelled and deleted by their owners, on a full disk too.

Why it is here: to do so is how room is made, and a database writes down what it will delete before
it does; on a full disk nothing could be deleted any more. So a file holds some room, which is given
up for such an act and taken again after it, and a job's examples go in pieces that need less.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs.disposal import discard
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.records import find
from sottovoce.core.errors import Unavailable

__all__ = ["RESERVE_BYTES", "cancel", "delete", "keep_room"]

RESERVE_BYTES = 16 << 20
_AT_ONCE: Final = 1000  # rows without texts; of blocks, which may be half a MiB, one
_NAME: Final = "reserve"

T = TypeVar("T")
_log = logging.getLogger(__name__)


def keep_room(state: Path) -> None:
    """Sets the room aside in the state's folder, if there is as much."""
    file = state / _NAME
    try:
        with file.open("ab") as held:
            os.posix_fallocate(held.fileno(), 0, RESERVE_BYTES)
    except OSError:
        file.unlink(missing_ok=True)  # a part of it would only be missed elsewhere
        _log.warning("the disk is full: no room is kept for ending jobs")


def cancel(jobs: Jobs, job_id: str, tenant: str | None = None) -> Job:
    """As `Jobs.cancel`.

    Raises:
        Unavailable: there is no room all the same, or another process holds the database.
    """
    return _with_room(jobs, job_id, tenant, lambda: jobs.cancel(job_id, tenant))


def delete(jobs: Jobs, job_id: str, tenant: str | None = None) -> None:
    """Deletes a job and what it left behind; of one that is running, the worker sees to that.

    Raises:
        See `cancel`.
    """
    job = jobs.get(job_id, tenant)
    if _with_room(jobs, job_id, tenant, lambda: jobs.delete(job_id, tenant)):
        discard(jobs, job)


def _with_room(jobs: Jobs, job_id: str, tenant: str | None, act: Callable[[], T]) -> T:
    try:
        return act()
    except Unavailable:
        _log.warning("job %s is ended in the room that was kept for it", job_id)
    (jobs.database.state / _NAME).unlink(missing_ok=True)
    try:
        _drop_examples(jobs, job_id, tenant)
        return act()
    finally:
        keep_room(jobs.database.state)


def _drop_examples(jobs: Jobs, job_id: str, tenant: str | None) -> None:
    """Of a job that waits, piece by piece. It is marked as one to be cancelled first: if this
    process ends in between, nobody trains on what is left."""
    with jobs.database.write() as transaction:
        row = find(transaction, job_id, tenant, lock=True)
        if row["state"] not in (State.UPLOADING, State.QUEUED):
            return
        transaction.change("UPDATE jobs SET cancel_requested = 1 WHERE id = :job", job=job_id)
    for table, number, some in (("blocks", "first", 1), ("examples", "sequence", _AT_ONCE)):
        dropped = True
        while dropped:
            with jobs.database.write() as transaction:
                dropped = bool(
                    transaction.change(
                        f"DELETE FROM {table} WHERE job = :job AND {number} IN (SELECT {number} "
                        f"FROM {table} WHERE job = :job ORDER BY {number} LIMIT :some)",
                        job=job_id,
                        some=some,
                    )
                )
            jobs.database.scrub()
