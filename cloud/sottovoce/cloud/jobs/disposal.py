"""What a deleted job leaves behind, and how it goes."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from sottovoce.cloud.job import Job
from sottovoce.cloud.jobs.jobs import Jobs

__all__ = ["discard", "job_folder"]

_log = logging.getLogger(__name__)


def job_folder(state: Path, job_id: str) -> Path:
    """Where a job keeps its checkpoint and its adapter."""
    return state / "jobs" / job_id


def discard(jobs: Jobs, job: Job) -> None:
    """Removes what a deleted job left behind: adapter, checkpoint, rows.

    A job whose files cannot be removed stays `Jobs.unpurged`, and the worker tries again.
    """
    folder = job_folder(jobs.database.state, job.id)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        _log.error("job %s: its files cannot be removed", job.id)
    else:
        jobs.purge(job.id)
