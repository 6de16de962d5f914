"""What a worker removes, and what it must not, of a job that another may have; and what it does
while the objects are away."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.ending import discard
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.training import worker as worker_module
from sottovoce.cloud.training.worker import ATTEMPTS, Worker
from sottovoce.core.errors import Unavailable
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
    never = tmp_path / "jobs" / ("0123" * 6)
    (never / "1").mkdir(parents=True)
    bundle = tmp_path / "bundles" / f"{'0123' * 4}-{'45' * 4}"
    bundle.mkdir(parents=True)
    worker.run_next()
    assert [never.exists(), bundle.exists()] == [True, True], "not all the time"
    monkeypatch.setattr(worker_module, "SWEEP_SECONDS", 0.0)
    worker.run_next()
    assert not never.exists()
    assert not bundle.exists()


def test_a_sweep_that_fails_is_tried_again_the_next_time(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "jobs").write_text("in the way")
    worker._swept -= 2 * worker_module.SWEEP_SECONDS
    with pytest.raises(Unavailable):
        worker.run_next()
    assert not worker.run_next(), "and holds up nothing meanwhile"


def test_a_job_waits_for_objects_that_are_away(
    worker: Worker, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.2)
    job = queued(jobs)
    (tmp_path / "jobs").write_text("in the way")
    real, waited = worker._pause, threading.Event()
    monkeypatch.setattr(worker, "_pause", lambda lease: (waited.set(), real(lease)))
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    assert waited.wait(60)
    assert jobs.get(job.id).state == State.RUNNING
    (tmp_path / "jobs").unlink()
    thread.join(60)
    assert jobs.get(job.id).state == State.SUCCEEDED
