"""Jobs that go on from an adapter lose nobody's examples, whoever else trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.job import Job, State, TrainingOptions
from sottovoce.cloud.jobs.ending import reinstate
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.models import adapters
from sottovoce.cloud.store.adapters import locate
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.training.trainer import Base
from sottovoce.cloud.training.worker import ATTEMPTS, Worker
from tests.support.examples import RELEASE, WORDS, examples

ANEW = TrainingOptions(epochs=2, batch_size=8)
ADDED = TrainingOptions(epochs=1, batch_size=8, continues=True)


def queue(jobs: Jobs, request_id: str, training: TrainingOptions = ANEW) -> Job:
    job = jobs.create("acme", request_id, "topics", training, RELEASE)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(examples(24))]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    return jobs.start(job.id, "acme", 24)


def test_what_goes_on_from_a_changed_adapter_is_trained_once_more(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    queue(jobs, "2")
    worker.run_next()
    third = queue(jobs, "3", training=ADDED)
    of, seen = Base.of, []

    def moved(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        seen.append(found.sha256 if found else "")
        if len(seen) == 1:
            reinstate(jobs, first.id)
        return found

    monkeypatch.setattr(Base, "of", moved)
    assert worker.run_next()
    assert jobs.get(third.id).state == State.SUCCEEDED
    assert len(set(seen)) == len(seen) == 2
    located = locate(jobs.database, "acme", "topics")
    assert located.folder.parent.parent.name == third.id
    assert adapters.load(located.folder).origin["base"] == seen[1]


def test_an_adapter_that_changes_each_time_ends_the_job(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = [queue(jobs, "1").id]
    worker.run_next()
    trained.append(queue(jobs, "2").id)
    worker.run_next()
    third = queue(jobs, "3", training=ADDED)
    of, rounds = Base.of, []

    def moved(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        rounds.append(reinstate(jobs, trained[len(rounds) % 2]))
        assert len(rounds) <= ATTEMPTS
        return found

    monkeypatch.setattr(Base, "of", moved)
    assert worker.run_next()
    found = jobs.get(third.id)
    assert (found.state, len(rounds)) == (State.FAILED, ATTEMPTS)
    assert "the adapter was changed in each of 3 rounds" in found.message
    assert not worker.objects.place(f"jobs/{third.id}").exists()


def test_the_limit_of_time_holds_for_all_rounds_together(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    queue(jobs, "2")
    worker.run_next()
    third = queue(jobs, "3", training=ADDED)
    of, rounds = Base.of, []

    def moved(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        rounds.append(found)
        if len(rounds) == 1:
            reinstate(jobs, first.id)
        else:  # as if the first had taken so long
            with database.write() as transaction:
                change = "UPDATE jobs SET trained = 1e6 WHERE id = :job"
                transaction.change(change, job=third.id)
        return found

    monkeypatch.setattr(Base, "of", moved)
    assert worker.run_next()
    found = jobs.get(third.id)
    assert (found.state, found.trained) == (State.FAILED, 1e6)
    assert "training took longer" in found.message


def test_jobs_that_go_on_from_one_adapter_take_turns(worker: Worker, jobs: Jobs) -> None:
    queue(jobs, "1")
    worker.run_next()
    for request in "23":
        queue(jobs, request, training=ADDED)
    held = Queue(jobs.database).claim("another")
    assert held is not None
    assert not worker.run_next()
    Queue(jobs.database).finish(held[1], State.CANCELLED)
    assert worker.run_next()
    assert not worker.run_next()


def test_what_goes_on_from_an_adapter_that_is_deleted_fails_and_the_worker_goes_on(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    second = queue(jobs, "2", training=ADDED)
    of = Base.of

    def deleted(database: Database, job: Job) -> Base | None:
        found = of(database, job)
        jobs.delete(first.id)
        return found

    monkeypatch.setattr(Base, "of", deleted)
    assert worker.run_next()
    found = jobs.get(second.id)
    assert found.state == State.FAILED
    assert "the adapter was deleted meanwhile" in found.message
    assert not [*(tmp_path / "jobs").rglob("*")]
    assert not worker.run_next()
