"""End jobs: cancel, delete, clean up their files, and make an earlier result current again.

Tenants delete jobs to free space. But a database first writes down a deletion, and fails on a full
disk. So a file reserves some space. That space is released before the deletion and reserved again
after it. A job's examples are deleted in small pieces, which need less space.

A job's files are kept as long as the job is remembered, even after another job took the name.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.jobs.records import find, job_of
from sottovoce.cloud.store import audit_log
from sottovoce.cloud.store.adapters import digest, install
from sottovoce.cloud.store.objects import Objects, one_by_one
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import NotFound, NotReady, Unavailable
from sottovoce.core.platform import files

_JOB: Final = re.compile(r"[0-9a-f]{24}")
"""Job ids, as `Jobs.create` draws them."""
_HOLDER: Final = re.compile(r"([0-9a-f]+)\.([0-9]{1,18})")
_log = logging.getLogger(__name__)


def job_name(job: str) -> str:
    """Return the prefix of all objects of a job."""
    return f"jobs/{job}"


def adapter_name(job: str, token: int) -> str:
    """Return the name of the adapter object that a lease holder writes at the end."""
    return f"jobs/{job}/{token}/adapter"


def checkpoint_name(job: str, token: int, which: str) -> str:
    """Return the name of a checkpoint object written by the same lease holder."""
    return f"jobs/{job}/{token}/checkpoints/{which}"


def scratch_home(state: Path) -> Path:
    """Return the folder in which lease holders work on a machine, each in ``<job>.<token>``."""
    return state / "scratch"


def clear(state: Path, queue: Queue) -> None:
    """Remove working folders of lost leases and half-written files in the state folder.

    Their owners died before they could remove them. Other files, for example from file
    managers, are left alone.
    """
    files.sweep(state)
    for folder in scratch_home(state).glob("*.*"):
        named = _HOLDER.fullmatch(folder.name)
        if named is None:
            continue
        try:
            queue.checkpoint(Lease(named[1], int(named[2])))
        except LeaseLost:
            shutil.rmtree(folder, ignore_errors=True)


def tidy(jobs: Jobs) -> None:
    """Remove files that ended jobs no longer need.

    A job that succeeded keeps the adapter of its last lease holder. Other jobs keep nothing.
    """
    one_by_one(
        jobs.database.objects,
        ((job.id, partial(_tidy, jobs, job, token)) for job, token in jobs.untidy()),
    )


def _tidy(jobs: Jobs, job: Job, token: int) -> None:
    _leave_adapter(jobs.database.objects, job, token)
    jobs.tidied(job.id)


def _leave_adapter(objects: Objects, job: Job, token: int) -> None:
    if job.state != State.SUCCEEDED:
        objects.remove(job_name(job.id))
        return
    for each in objects.within(job_name(job.id)):
        if each != str(token):
            objects.remove(f"{job_name(job.id)}/{each}")
    objects.remove(f"{job_name(job.id)}/{token}/checkpoints")


def sweep(jobs: Jobs) -> None:
    """Remove objects of forgotten jobs, and keys of ended jobs.

    A stalled process may write them late, and die before it removes them or records them in a row.
    Objects with other names are left alone.
    """
    objects = jobs.database.objects
    one_by_one(
        objects,
        (
            (job, partial(objects.remove, job_name(job)))
            for job in objects.within("jobs")
            if _JOB.fullmatch(job) and not jobs.remembered(job)
        ),
    )
    one_by_one(
        objects,
        (
            (job, partial(objects.destroy_secret, name))
            for job, name in objects.secrets()
            if _JOB.fullmatch(job) and not jobs.unfinished(job)
        ),
    )


def discard(jobs: Jobs, job: Job) -> None:
    """Remove a deleted job's adapter, checkpoint and rows.

    A job whose files cannot be removed stays `Jobs.unpurged`, and the worker tries again.
    """
    try:
        _discard(jobs, job)
    except Unavailable as error:
        _log.error("job %s: %s", job.id, error)


def discard_left(jobs: Jobs) -> None:
    """Finish all deletions that were interrupted."""
    acts = ((job.id, partial(_discard, jobs, job)) for job in jobs.unpurged())
    one_by_one(jobs.database.objects, acts)


def _discard(jobs: Jobs, job: Job) -> None:
    jobs.database.objects.remove(job_name(job.id))
    jobs.purge(job.id)


RESERVE_BYTES = 16 << 20
_AT_ONCE: Final = 1000  # rows without texts; a block may be half a MiB, so blocks go singly
_NAME: Final = "reserve"

T = TypeVar("T")


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


def cancel_as_provider(jobs: Jobs, job_id: str) -> Job:
    """Cancel a job of any tenant, and note the act in the audit log; see `cancel`."""
    job = cancel(jobs, job_id)
    audit_log.note(jobs.database, "job cancelled", job.tenant, job_id)
    return job


def delete(jobs: Jobs, job_id: str, tenant: str | None = None) -> None:
    """Delete a job and its files; if the job is running, the worker deletes them."""
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


def reinstate(jobs: Jobs, job_id: str, tenant: str | None = None) -> Job:
    """Make a job's result the current adapter of its name.

    Raises:
        NotFound: the job does not exist, belongs to another tenant, or has lost its files.
        NotReady: it did not succeed.
    """
    with jobs.database.read() as transaction:
        row = find(transaction, job_id, tenant)
    job = job_of(row)
    if job.state != State.SUCCEEDED:
        raise NotReady("the job trained no adapter", fix="name one that succeeded", subject=job_id)
    # The adapter lies under the last lease's token.
    name = adapter_name(job.id, row["fence"])
    with jobs.database.objects.at(name) as folder:
        if not folder.is_dir() or not any(folder.iterdir()):
            raise NotFound(
                "what the job trained is no longer kept", fix="train it again", subject=job_id
            )
        sha256 = digest(folder)
    with jobs.database.write() as transaction:
        quotas.lock(transaction, job.tenant)  # also keeps past jobs from being forgotten
        find(transaction, job_id, tenant, lock=True)  # refuses a job deleted meanwhile
        install(transaction, job.tenant, job.adapter, job=job.id, folder=name, sha256=sha256)
    return job
