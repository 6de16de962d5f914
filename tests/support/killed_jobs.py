"""A job with workers that are killed, and its results."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file

from sottovoce.cloud.job import Job, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.adapters import digest, locate
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import Tenants
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.kills import work

__all__ = ["OPTIONS", "ROWS", "Tensors", "found", "queue", "tensors", "work"]

ROWS = examples(28, plain=2)
OPTIONS = TrainingOptions(
    reconstruction=True, plain_tokens=2, epochs=4, batch_size=8, learning_rate=1e-2
)
Tensors = dict[str, dict[str, list[object]]]


def queue(state: Path, options: TrainingOptions = OPTIONS) -> Job:
    """A state folder with one job that waits."""
    database = SqliteDatabase(state)
    Tenants(database).enroll("acme")
    jobs = Jobs(database)
    job = jobs.create("acme", "r", "topics", options, RELEASE)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(ROWS)]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    job = jobs.start(job.id, "acme", len(ROWS))
    database.close()
    return job


def found(state: Path, job: Job) -> Job:
    """The job as it stands."""
    database = SqliteDatabase(state)
    try:
        return Jobs(database).get(job.id)
    finally:
        database.close()


def tensors(state: Path) -> Tensors:
    """Every number of the adapter that the name stands for, by file and tensor."""
    database = SqliteDatabase(state)
    located = locate(database, "acme", "topics")
    database.close()
    assert located.sha256 == digest(located.folder)
    files = sorted(located.folder.glob("*.safetensors"))
    assert files
    return {f.name: {n: t.tolist() for n, t in load_file(f).items()} for f in files}
