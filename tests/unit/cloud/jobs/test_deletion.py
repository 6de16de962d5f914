"""A deletion leaves no byte in the state folder or the bucket."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.cloud.job import Job, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import discard
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.training.worker import Worker
from tests.support.buckets import contents, on_both_objects
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.stores import FileStore, Store
from tests.support.waiting import until

TEXT, LABEL, PLAIN, NAME = (f"canary-{what}" for what in ("text", "label", "plain", "name"))
CANARIES = (TEXT, LABEL, PLAIN, NAME)


@pytest.fixture
def store() -> Store:
    """A file: a server keeps deleted rows, and with them names of adapters and labels, until it
    cleans up, as docs/scaling.md says. Of examples on both: see test_sealed.py."""
    return FileStore()


def queue(jobs: Jobs, epochs: int = 1, *, start: bool = True) -> Job:
    """Queue a job with the canaries in every example."""
    options = TrainingOptions(reconstruction=True, plain_tokens=2, epochs=epochs, batch_size=8)
    job = jobs.create("acme", "r", NAME, options, RELEASE)
    rows = [
        replace(
            row, text=f"{row.text} {TEXT}", label=f"{row.label} {LABEL}", plain_tokens=(PLAIN,) * 2
        )
        for row in examples(24, plain=2)
    ]
    append(
        jobs, job.id, "acme", 0, [Upload(f"e{i}", row) for i, row in enumerate(rows)], len(WORDS)
    )
    return jobs.start(job.id, "acme", 24) if start else jobs.get(job.id)


def left(jobs: Jobs, state: Path) -> set[str]:
    """The canaries that the folder holds, in a file or in a name, write-ahead log included; and
    those that its objects hold, if they lie elsewhere."""
    elsewhere = contents(jobs.database.objects)
    found = {canary for canary in CANARIES if canary.encode() in elsewhere}
    for path in state.rglob("*"):
        text = str(path.relative_to(state)).encode()
        if path.is_file():
            text += path.read_bytes()
        found |= {canary for canary in CANARIES if canary.encode() in text}
    return found


def delete(jobs: Jobs, job: Job) -> None:
    """As the server does it."""
    if jobs.delete(job.id, "acme"):
        discard(jobs, job)


@pytest.mark.parametrize("state", [State.UPLOADING, State.QUEUED, State.CANCELLED])
def test_a_job_that_never_ran(jobs: Jobs, tmp_path: Path, state: State) -> None:
    job = queue(jobs, start=state != State.UPLOADING)
    assert left(jobs, tmp_path) == {NAME}  # the examples are sealed
    if state == State.CANCELLED:
        jobs.cancel(job.id)
    delete(jobs, job)
    assert left(jobs, tmp_path) == set()


@on_both_objects
def test_a_job_that_succeeded(worker: Worker, jobs: Jobs, tmp_path: Path) -> None:
    job = queue(jobs)
    worker.run_next()
    assert jobs.get(job.id).state == State.SUCCEEDED
    assert left(jobs, tmp_path) == {LABEL, NAME}  # the adapter has its labels
    delete(jobs, job)
    assert left(jobs, tmp_path) == set()
    assert jobs.database.objects.within("jobs") == []


def test_a_job_that_failed(worker: Worker, jobs: Jobs, tmp_path: Path) -> None:
    job = queue(jobs)
    (tmp_path / "scratch").write_text("in the way")
    worker.run_next()
    assert jobs.get(job.id).state == State.FAILED
    assert TEXT not in left(jobs, tmp_path)
    delete(jobs, job)
    assert left(jobs, tmp_path) == set()


@on_both_objects
def test_a_job_that_runs(worker: Worker, jobs: Jobs, tmp_path: Path) -> None:
    job = queue(jobs, epochs=200)
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    until(lambda: jobs.database.objects.within(f"jobs/{job.id}/1/checkpoints"))
    assert left(jobs, tmp_path) == {LABEL, NAME}
    delete(jobs, job)
    thread.join(60)
    assert not thread.is_alive()
    assert left(jobs, tmp_path) == set()
    assert jobs.database.objects.within("jobs") == []


@on_both_objects
def test_a_deletion_cut_short_is_finished_by_the_worker(
    worker: Worker, jobs: Jobs, tmp_path: Path
) -> None:
    job = queue(jobs)
    worker.run_next()
    assert jobs.delete(job.id, "acme")  # and the server dies
    assert left(jobs, tmp_path)
    assert not worker.run_next()
    assert left(jobs, tmp_path) == set()
    assert jobs.database.objects.within("jobs") == []


def test_a_reader_elsewhere_holds_the_log_back_no_longer_than_it_reads(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = queue(jobs)
    reader = sqlite3.connect(tmp_path / "sottovoce.db", check_same_thread=False)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM examples").fetchall()
    ending = threading.Timer(0.5, reader.rollback)
    ending.start()
    delete(jobs, job)
    ending.join()
    reader.close()
    assert left(jobs, tmp_path) == set()
