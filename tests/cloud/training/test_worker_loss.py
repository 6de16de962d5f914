"""What a worker removes, and what it must not, of a job that another may have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.disposal import discard
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.training import worker as worker_module
from sottovoce.cloud.training.worker import ATTEMPTS, Worker
from tests.support.jobs import claim, queued


def test_nothing_of_a_job_is_removed_before_it_has_ended(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued(jobs)
    for _ in range(ATTEMPTS):
        claim(jobs, worker._owner)  # and the worker dies
    real, states = worker.objects.remove, []

    def remove(name: str) -> None:
        states.append(jobs.get(job.id).state)
        real(name)

    monkeypatch.setattr(worker.objects, "remove", remove)
    worker.run_next()
    assert set(states) == {State.FAILED}, "till then another may have it, and need it"


def test_what_is_put_for_a_job_that_was_lost_goes(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    job = queued(jobs)
    real = worker.objects.put

    def put(source: Path, name: str) -> None:
        if name.endswith("adapter"):  # while it sleeps, another ends the job, which is deleted
            _, lease = claim(jobs, worker._owner)
            jobs.delete(job.id)
            worker.queue.finish(lease, State.CANCELLED)
            discard(jobs, job)
        real(source, name)

    monkeypatch.setattr(worker.objects, "put", put)
    worker.run_next()
    assert not [f for f in (tmp_path / "jobs").rglob("*") if f.is_file()]


def test_a_worker_sweeps_now_and_then(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "jobs" / "never" / "1").mkdir(parents=True)
    worker.run_next()
    assert (tmp_path / "jobs" / "never").exists(), "not all the time"
    monkeypatch.setattr(worker_module, "SWEEP_SECONDS", 0.0)
    worker.run_next()
    assert not (tmp_path / "jobs" / "never").exists()
