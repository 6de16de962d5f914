"""Names of a job's files and objects, and their removal."""

from __future__ import annotations

import logging
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Final

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.state.objects import Objects, one_by_one
from sottovoce.core.errors import Unavailable
from sottovoce.core.platform import files

__all__ = [
    "adapter_name",
    "checkpoint_name",
    "clear",
    "discard",
    "discard_left",
    "job_name",
    "scratch_home",
    "sweep",
    "tidy",
]

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
