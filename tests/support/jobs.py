"""Jobs of two tenants in any state, by the way there is to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Example, Job, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs import records as sealed
from sottovoce.cloud.jobs.queue import Lease, Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.objects import Objects
from sottovoce.cloud.tenants import Tenants
from tests.support.clock import Clock
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.stores import Store

TENANTS = ("acme", "other")
OWNER = "the only worker"


@contextmanager
def opened(
    state: Path, store: Store, clock: Clock | None = None, objects: Objects | None = None
) -> Iterator[Jobs]:
    """Open the jobs of two tenants, each with at most three unfinished jobs."""
    database = store.open(state, clock, objects)
    for name in TENANTS:
        Tenants(database).enroll(name)
    yield Jobs(database, ServerLimits(unfinished_jobs=3))
    database.close()


def create(jobs: Jobs, request_id: str = "r", tenant: str = "acme") -> Job:
    """A job for adapter "topics", short to train."""
    return jobs.create(tenant, request_id, "topics", TrainingOptions(epochs=1), RELEASE)


def fill(jobs: Jobs, job: Job, rows: list[Example] | None = None) -> int:
    """Uploads twelve examples, or ``rows``."""
    rows = rows if rows is not None else examples(12)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(rows)]
    return append(jobs, job.id, job.tenant, 0, uploads, len(WORDS))


def exchange(jobs: Jobs, job: Job, rows: list[Example]) -> None:
    """Has a job hold other examples than were sent, as no caller could."""
    with jobs.database.write() as transaction:
        transaction.change("DELETE FROM blocks WHERE job = :job", job=job.id)
        sealed.write(transaction, jobs.database.keys.of(transaction, job.id), job.id, 0, rows)


def queued(jobs: Jobs, request_id: str = "r", tenant: str = "acme") -> Job:
    """A job that waits for a worker."""
    job = create(jobs, request_id, tenant)
    return jobs.start(job.id, tenant, fill(jobs, job))


def claim(jobs: Jobs, owner: str = OWNER) -> tuple[Job, Lease]:
    """The next job, which must be there."""
    claimed = Queue(jobs.database).claim(owner)
    assert claimed is not None
    return claimed


def finish(jobs: Jobs, state: State = State.SUCCEEDED) -> Job:
    """Claims the next job and ends it."""
    job, lease = claim(jobs)
    Queue(jobs.database).finish(lease, state)
    return job


def in_state(jobs: Jobs, state: State) -> Job:
    """A job that is ``state``."""
    job = create(jobs)
    if state != State.UPLOADING:
        jobs.start(job.id, "acme", fill(jobs, job))
    if state == State.RUNNING:
        claim(jobs)
    if state in (State.SUCCEEDED, State.FAILED):
        finish(jobs, state)
    if state == State.CANCELLED:
        jobs.cancel(job.id)
    return jobs.get(job.id)


def rows_held(jobs: Jobs) -> int:
    """Examples in the database, of all jobs."""
    with jobs.database.read() as transaction:
        (row,) = transaction.rows("SELECT count(*) AS n FROM examples")
    return int(row["n"])
