"""What a job leaves behind, what each part is called, and how it goes."""

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
from sottovoce.core.system import leftovers

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
"""As `Jobs.create` draws their names."""
_HOLDER: Final = re.compile(r"([0-9a-f]+)\.([0-9]{1,18})")
_log = logging.getLogger(__name__)


def job_name(job: str) -> str:
    """What all objects of a job begin with."""
    return f"jobs/{job}"


def adapter_name(job: str, token: int) -> str:
    """The object that a holder of the job's lease makes in the end."""
    return f"jobs/{job}/{token}/adapter"


def checkpoint_name(job: str, token: int, which: str) -> str:
    """The object of a checkpoint, one of that holder's."""
    return f"jobs/{job}/{token}/checkpoints/{which}"


def scratch_home(state: Path) -> Path:
    """Where holders of leases work on a machine, each in a folder ``<job>.<token>``."""
    return state / "scratch"


def clear(state: Path, queue: Queue) -> None:
    """Removes the folders of holders that are none any more, and died before they could, and what
    was half written in the state's own. What else lies there, as disks and file managers leave, is
    not ours."""
    leftovers.sweep(state)
    for folder in scratch_home(state).glob("*.*"):
        named = _HOLDER.fullmatch(folder.name)
        if named is None:
            continue
        try:
            queue.checkpoint(Lease(named[1], int(named[2])))
        except LeaseLost:
            shutil.rmtree(folder, ignore_errors=True)


def tidy(jobs: Jobs) -> None:
    """Removes what jobs that have ended no longer need: of one that succeeded all but the adapter
    that the last holder of its lease made, of others everything."""
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
    """Removes what lies under names of jobs that are forgotten, and keys of those that have ended:
    whoever put it there was only asleep meanwhile, and died before it could remove it, or before
    a row told of it. What has another name, as shares and people leave, is not ours."""
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
    """Removes what a deleted job left behind: adapter, checkpoint, rows.

    A job whose files cannot be removed stays `Jobs.unpurged`, and the worker tries again.
    """
    try:
        _discard(jobs, job)
    except Unavailable as error:
        _log.error("job %s: %s", job.id, error)


def discard_left(jobs: Jobs) -> None:
    """The same of all whose deletion was cut short."""
    acts = ((job.id, partial(_discard, jobs, job)) for job in jobs.unpurged())
    one_by_one(jobs.database.objects, acts)


def _discard(jobs: Jobs, job: Job) -> None:
    jobs.database.objects.remove(job_name(job.id))
    jobs.purge(job.id)
