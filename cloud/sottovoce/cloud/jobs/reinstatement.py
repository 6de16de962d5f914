"""Make an earlier job's adapter current again.

A job's files are kept as long as the job is remembered, even after another job took the name.
"""

from __future__ import annotations

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs.disposal import adapter_name
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.records import find, job_of
from sottovoce.cloud.state import quotas
from sottovoce.cloud.state.adapters import digest, install
from sottovoce.core.errors import NotFound, NotReady

__all__ = ["reinstate"]


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
        install(
            transaction,
            job.tenant,
            job.adapter,
            job=job.id,
            folder=name,
            sha256=sha256,
        )
    return job
