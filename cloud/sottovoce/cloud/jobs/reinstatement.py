"""Gives an adapter's name back to what an earlier job trained.

A job's files stay for as long as the job is remembered, whoever took its adapter's name since.
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
    """Makes what a job trained the adapter of its name.

    Raises:
        NotFound: no such job, not this tenant's, or its files are gone.
        NotReady: it did not succeed.
    """
    with jobs.database.read() as transaction:
        row = find(transaction, job_id, tenant)
    job = job_of(row)
    if job.state != State.SUCCEEDED:
        raise NotReady("the job trained no adapter", fix="name one that succeeded", subject=job_id)
    # Under the lease with which it was trained, which was the last.
    name = adapter_name(job.id, row["fence"])
    with jobs.database.objects.at(name) as folder:
        if not folder.is_dir() or not any(folder.iterdir()):
            raise NotFound(
                "what the job trained is no longer kept", fix="train it again", subject=job_id
            )
        sha256 = digest(folder)
    with jobs.database.write() as transaction:
        quotas.lock(transaction, job.tenant)  # nor are its past jobs forgotten now
        find(transaction, job_id, tenant, lock=True)  # not deleted meanwhile
        install(
            transaction,
            job.tenant,
            job.adapter,
            job=job.id,
            folder=name,
            sha256=sha256,
        )
    return job
