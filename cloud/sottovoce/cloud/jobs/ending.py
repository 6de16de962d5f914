"""Cancel and delete jobs, even on a full disk.

Deleting is how a tenant frees space, but a database first writes down what it will delete. On a
full disk it could delete nothing. So a file reserves some space. That space is released before the
deletion and reserved again after it. A job's examples are deleted in small pieces, which need less
space.
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
_AT_ONCE: Final = 1000  # rows without texts; a block may be half a MiB, so blocks go singly
_NAME: Final = "reserve"

T = TypeVar("T")
_log = logging.getLogger(__name__)


def keep_room(state: Path) -> None:
    """Reserve the space in the state folder, if the disk has enough."""
    file = state / _NAME
    try:
        with file.open("ab") as held:
            os.posix_fallocate(held.fileno(), 0, RESERVE_BYTES)
    except OSError:
        file.unlink(missing_ok=True)  # a partly filled file would only take space
        _log.warning("the disk is full: no room is kept for ending jobs")


def cancel(jobs: Jobs, job_id: str, tenant: str | None = None) -> Job:
    """Cancel a job; see `Jobs.cancel`.

    Raises:
        Unavailable: the disk is still full, or another process holds the database.
    """
    return _with_room(jobs, job_id, tenant, lambda: jobs.cancel(job_id, tenant))


def delete(jobs: Jobs, job_id: str, tenant: str | None = None) -> None:
    """Delete a job and its files; if the job is running, the worker deletes them.

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
    """Delete the examples of a waiting job, piece by piece.

    The job is first marked for cancelling. If this process ends midway, the rest is never trained
    on.
    """
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
