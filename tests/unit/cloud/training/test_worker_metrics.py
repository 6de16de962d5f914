"""A trainer's counters match its work."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.metrics import TrainerMetrics
from sottovoce.cloud.training import worker as worker_module
from sottovoce.cloud.training.worker import Worker
from sottovoce.core.errors import Unavailable
from tests.support.examples import RELEASE, examples
from tests.support.jobs import claim, exchange, fill
from tests.support.waiting import until


def queue(jobs: Jobs, request_id: str, epochs: int = 2) -> str:
    """A job of 12 examples in batches of 4."""
    training = TrainingOptions(epochs=epochs, batch_size=4)
    job = jobs.create("acme", request_id, "topics", training, RELEASE)
    return jobs.start(job.id, "acme", fill(jobs, job)).id


def value(worker: Worker, name: str, **labels: str) -> float:
    found = worker.metrics.registry.get_sample_value(f"sottovoce_trainer_{name}", labels)
    assert found is not None, name
    return found


def outcomes(worker: Worker) -> dict[str, float]:
    """Those that there were."""
    found = {o: value(worker, "jobs_total", outcome=o) for o in TrainerMetrics.OUTCOMES}
    return {outcome: number for outcome, number in found.items() if number}


def test_jobs_and_steps_are_counted_by_how_they_ended(worker: Worker, jobs: Jobs) -> None:
    done = queue(jobs, "1")
    assert worker.run_next()
    assert outcomes(worker) == {"succeeded": 1}
    assert value(worker, "steps_total") == jobs.get(done).progress.steps > 0
    assert value(worker, "busy_seconds_total") > 0
    failing = jobs.get(queue(jobs, "2"))
    exchange(jobs, failing, examples(1))
    assert worker.run_next()
    assert outcomes(worker) == {"succeeded": 1, "failed": 1}
    assert not worker.run_next()
    assert value(worker, "busy") == 0
    assert outcomes(worker) == {"succeeded": 1, "failed": 1}


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (lambda worker, jobs, job: jobs.cancel(job), "cancelled"),
        (lambda worker, jobs, job: worker.stop(), "put_down"),
    ],
)
def test_what_is_stopped_is_told_apart(
    worker: Worker, jobs: Jobs, end: Callable[[Worker, Jobs, str], object], outcome: str
) -> None:
    job = queue(jobs, "1", epochs=200)
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    until(lambda: jobs.get(job).progress.step > 0)
    assert value(worker, "busy") == 1
    end(worker, jobs, job)
    thread.join(60)
    assert outcomes(worker) == {outcome: 1}
    assert value(worker, "busy") == 0


def test_a_job_that_another_took_is_lost(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(jobs, "1")

    def asleep(*_: object, **__: object) -> None:
        with jobs.database.write() as transaction:
            transaction.change("UPDATE jobs SET lease_ends = 0")
        claim(jobs, "another")

    monkeypatch.setattr(Queue, "examples", asleep)
    assert worker.run_next()
    assert outcomes(worker) == {"lost": 1}


def test_waiting_for_the_database_is_counted(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.1)
    real, refused = Queue.examples, iter([Unavailable("away"), Unavailable("away")])

    def examples_(self: Queue, job: str) -> object:
        for error in refused:
            raise error
        return real(self, job)

    monkeypatch.setattr(Queue, "examples", examples_)
    queue(jobs, "1")
    assert worker.run_next()
    assert (outcomes(worker), value(worker, "waits_total")) == ({"succeeded": 1}, 2)
