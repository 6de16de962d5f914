"""The worker trains one job at a time, and no crash, cancel or orphan loses one."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import obstore
import pytest
from safetensors import SafetensorError

from sottovoce.cloud.job import Job, Progress, Release, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import discard, tidy
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.models import adapters
from sottovoce.cloud.store.adapters import digest, locate
from sottovoce.cloud.store.s3 import S3Objects
from sottovoce.cloud.tenants import quotas
from sottovoce.cloud.training import run as run_module
from sottovoce.cloud.training import trainer as train_module
from sottovoce.cloud.training import worker as worker_module
from sottovoce.cloud.training.run import Losses, fit
from sottovoce.cloud.training.trainer import Hyperparameters
from sottovoce.cloud.training.worker import ATTEMPTS, Scratch, Worker, _kept_alive, scratch
from sottovoce.core.errors import NotFound, Unavailable
from tests.support.buckets import on_both_objects
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.jobs import claim, exchange, queued
from tests.support.waiting import until


def queue(
    jobs: Jobs,
    request_id: str = "r",
    epochs: int = 2,
    count: int = 24,
    training: TrainingOptions | None = None,
    release: Release = RELEASE,
) -> Job:
    training = training or TrainingOptions(epochs=epochs, batch_size=8)
    job = jobs.create("acme", request_id, "topics", training, release)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(examples(count))]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    return jobs.start(job.id, "acme", count)


@on_both_objects
def test_a_queued_job_becomes_an_adapter(worker: Worker, jobs: Jobs) -> None:
    job = queue(jobs)
    assert worker.run_next()
    found = jobs.get(job.id)
    assert (found.state, found.labels) == (State.SUCCEEDED, ("garden", "kitchen", "office"))
    assert found.progress.step == found.progress.steps > 0
    with locate(jobs.database, "acme", "topics").opened() as folder:
        adapter = adapters.load(folder)
    assert adapter.origin["bundle_id"] == RELEASE.bundle_id
    assert adapter.origin["release"]["eta"] == RELEASE.eta
    assert worker.objects.within(f"jobs/{job.id}") == ["1"]
    assert worker.objects.within(f"jobs/{job.id}/1") == ["adapter"]
    assert not worker.run_next()


def test_a_new_job_replaces_the_adapter_only_when_it_succeeds(
    worker: Worker, jobs: Jobs, tmp_path: Path
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    second = queue(jobs, "2")
    exchange(jobs, second, [replace(row, label="one") for row in examples(24)])
    worker.run_next()
    failed = jobs.get(second.id)
    assert (failed.state, "at least 2 labels" in failed.message) == (State.FAILED, True)
    kept = locate(jobs.database, "acme", "topics")
    assert kept.folder == tmp_path / "jobs" / first.id / "1" / "adapter"
    assert kept.sha256 == digest(kept.folder)
    assert not (tmp_path / "jobs" / second.id).exists()
    third = queue(jobs, "3")
    worker.run_next()
    assert locate(jobs.database, "acme", "topics") != kept
    # Deleting the older job leaves the newer one's adapter.
    assert jobs.delete(first.id)
    discard(jobs, first)
    assert locate(jobs.database, "acme", "topics").folder.parent.parent.name == third.id
    assert jobs.delete(third.id)
    discard(jobs, third)
    with pytest.raises(NotFound):
        locate(jobs.database, "acme", "topics")
    assert os.listdir(tmp_path / "jobs") == []


def test_a_cancelled_job_ends_within_steps_and_leaves_nothing(
    worker: Worker, jobs: Jobs, tmp_path: Path
) -> None:
    job = queue(jobs, epochs=200)
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    until(lambda: jobs.get(job.id).progress.step > 0)
    jobs.cancel(job.id, "acme")
    thread.join(60)
    assert not thread.is_alive()
    assert jobs.get(job.id).state == State.CANCELLED
    assert not (tmp_path / "jobs" / job.id).exists()


def test_a_running_job_that_is_deleted_is_purged(
    worker: Worker, jobs: Jobs, tmp_path: Path
) -> None:
    job = queue(jobs, epochs=200)
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    until(lambda: jobs.get(job.id).progress.step > 0)
    assert not jobs.delete(job.id, "acme")
    thread.join(60)
    assert not thread.is_alive()
    assert not (tmp_path / "jobs" / job.id).exists()
    assert (worker.queue.examples(job.id), worker.queue.claim("another")) == ([], None)


def test_a_stopped_worker_leaves_the_job_for_the_next(
    worker: Worker, jobs: Jobs, tmp_path: Path, bert: str
) -> None:
    job = queue(jobs, epochs=30)
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    until(lambda: jobs.get(job.id).progress.step > 0)
    worker.stop()
    thread.join(60)
    left = jobs.get(job.id)
    assert (left.state, left.attempts) == (State.RUNNING, 0)
    assert [*(tmp_path / "jobs" / job.id).glob("1/checkpoints/*/last.safetensors")]

    following = Worker(tmp_path, bert)
    following.run_next()
    following.database.close()
    assert jobs.get(job.id).state == State.SUCCEEDED


def test_a_job_that_takes_too_long_fails_and_leaves_the_adapter_there_was(
    worker: Worker, jobs: Jobs, tmp_path: Path
) -> None:
    first = queue(jobs, "1")
    worker.run_next()
    quotas.change(jobs.database, "acme", "training_seconds", 1_000)
    second = queue(jobs, "2", epochs=200)
    # As if an earlier worker had trained it for long: time counts over restarts.
    _, lease = claim(jobs)
    worker.queue.report(lease, Progress(), 999.5)
    worker.queue.release(lease)
    worker.run_next()
    found = jobs.get(second.id)
    assert found.state == State.FAILED
    assert "longer than 1000 s" in found.message
    assert "fewer examples or epochs" in found.message
    assert found.trained >= 999.5
    assert found.progress.step < 600, "it did not go on to its end"
    assert not (tmp_path / "jobs" / second.id).exists()
    kept = locate(jobs.database, "acme", "topics")
    assert kept.folder == tmp_path / "jobs" / first.id / "1" / "adapter"
    quotas.change(jobs.database, "acme", "training_seconds", None)
    third = queue(jobs, "3")
    worker.run_next()
    assert jobs.get(third.id).state == State.SUCCEEDED


def test_a_job_waits_for_room_on_the_disk_and_then_goes_on(
    worker: Worker,
    jobs: Jobs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 0.05)
    real, full = run_module.save_file, 2 * ATTEMPTS

    def save_file(*arguments: Any, **options: Any) -> None:
        nonlocal full
        full -= 1
        if full >= 0:
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        real(*arguments, **options)

    monkeypatch.setattr(run_module, "save_file", save_file)
    job = queue(jobs)
    assert worker.run_next()
    assert full < 0
    assert jobs.get(job.id).state == State.SUCCEEDED
    assert caplog.text.count("the cloud's disk is full") == 2 * ATTEMPTS


def test_a_job_that_waits_for_room_can_be_cancelled(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run_module, "save_file", full)
    job = queue(jobs)
    thread = threading.Thread(target=worker.run_next)
    thread.start()
    until(lambda: jobs.get(job.id).state == State.RUNNING)
    jobs.cancel(job.id)
    thread.join(60)
    assert not thread.is_alive()
    assert jobs.get(job.id).state == State.CANCELLED


def test_files_that_cannot_be_removed_are_not_forgotten(
    worker: Worker, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queue(jobs)
    worker.run_next()
    with monkeypatch.context() as stuck:
        stuck.setattr(shutil, "rmtree", lambda *_, **__: None)
        jobs.delete(job.id)
        discard(jobs, job)
        assert [each.id for each in jobs.unpurged()] == [job.id]
    assert not worker.run_next()
    assert jobs.unpurged() == []
    assert not (tmp_path / "jobs" / job.id).exists()


def test_an_idle_worker_is_woken_by_a_job_and_by_its_end(
    tmp_path: Path, bert: str, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "IDLE_SECONDS", 600.0)
    worker, looked = Worker(tmp_path, bert), 0
    real = worker.run_next

    def run_next() -> bool:
        nonlocal looked
        looked += 1
        return real()

    monkeypatch.setattr(worker, "run_next", run_next)
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(lambda: looked)
    time.sleep(1.0)
    assert looked <= 2, "it sleeps, once its first look has written that the cloud has run"
    job = queue(jobs, epochs=1)
    until(lambda: jobs.get(job.id).state == State.SUCCEEDED)
    worker.stop()
    thread.join(60)
    assert not thread.is_alive()
    worker.database.close()


def test_deaths_count_only_as_long_as_a_job_gets_no_further(
    worker: Worker, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queue(jobs, epochs=1)
    for _ in range(ATTEMPTS - 1):
        claim(jobs, worker._owner)  # and the worker dies
    # A checkpoint within the epoch, as every 20 seconds of a long one, and death in the next step.
    monkeypatch.setattr(
        train_module, "Hyperparameters", partial(Hyperparameters, checkpoint_seconds=0.0)
    )

    def one_step(*arguments: Any) -> Iterator[Losses]:
        yield next(fit(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(run_module, "fit", one_step)
    with pytest.raises(KeyboardInterrupt):
        worker.run_next()
    assert jobs.get(job.id).attempts == 0


def test_a_job_that_kills_its_worker_is_given_up(worker: Worker, jobs: Jobs) -> None:
    job = queue(jobs)
    for _ in range(ATTEMPTS):
        claim(jobs, worker._owner)  # and the worker dies
    worker.run_next()
    found = jobs.get(job.id)
    assert found.state == State.FAILED
    assert "died" in found.message


def test_an_internal_error_says_its_kind_and_quotes_nothing(
    worker: Worker, jobs: Jobs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = queue(jobs)
    (tmp_path / "scratch").write_text("in the way")  # no folder can be made here
    worker.run_next()
    found = jobs.get(job.id)
    assert found.state == State.FAILED
    assert "internal error" in found.message
    assert str(tmp_path) not in found.message
    # The provider is told where, and not what: the error's own words may quote an example.
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "at " in record.getMessage()
    assert ".py:" in record.getMessage()
    assert "in the way" not in caplog.text


def test_the_second_worker_waits_for_the_first_to_leave(
    tmp_path: Path, bert: str, jobs: Jobs
) -> None:
    job = queue(jobs, epochs=8)
    workers = [Worker(tmp_path, bert) for _ in range(2)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    until(lambda: jobs.get(job.id).state == State.SUCCEEDED)
    # Had both trained it, the later one could not have ended it, and its thread had died.
    assert all(thread.is_alive() for thread in threads)
    for worker, thread in zip(workers, threads, strict=True):
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()
        worker.database.close()


def test_a_lease_is_renewed_while_nothing_is_written(jobs: Jobs) -> None:
    queue(jobs)
    held = Queue(jobs.database, seconds=0.3)
    claimed = held.claim("one")
    assert claimed is not None

    def ends() -> float:
        with jobs.database.read() as transaction:
            (row,) = transaction.rows("SELECT lease_ends FROM jobs")
        return float(row["lease_ends"])

    for _ in range(2):
        before = ends()
        with _kept_alive(held, claimed[1]):
            until(lambda before=before: ends() > before)
    jobs.cancel(claimed[0].id)
    held.finish(claimed[1], State.CANCELLED)
    with _kept_alive(held, claimed[1]):
        pass  # one that is over harms nobody


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


def keep(place: Scratch, text: str) -> None:
    """Has the job reach a checkpoint, written as training writes it."""
    place.checkpoint.parent.mkdir(exist_ok=True)
    aside = place.checkpoint.with_name("aside")
    aside.write_text(text)
    aside.replace(place.checkpoint)
    place.keep()


def put(state: Path, queue: Queue, lease: Lease) -> None:
    """Ends the job with an adapter."""
    with scratch(state, queue, lease) as place:
        place.adapter.mkdir()
        (place.adapter / "weights").write_text("w")
        queue.finish(lease, State.SUCCEEDED, adapter=place.put_adapter())


def test_a_holder_that_begins_again_keeps_its_checkpoint(jobs: Jobs, tmp_path: Path) -> None:
    queued(jobs)
    _, lease = claim(jobs)
    queue = Queue(jobs.database)
    for before, now in (("", "one"), ("one", "two"), ("two", "three")):
        with scratch(tmp_path, queue, lease) as place:  # as after each time the disk was full
            place.fetch()
            assert (place.checkpoint.read_text() if before else "") == before
            keep(place, now)
    kept = jobs.database.objects.within(f"jobs/{lease.job}/1/checkpoints")
    assert len(kept) == 1, "none but the last is kept"


def test_a_checkpoint_that_cannot_be_removed_holds_no_job_up(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued(jobs)
    _, lease = claim(jobs)
    queue = Queue(jobs.database)
    with scratch(tmp_path, queue, lease) as place:
        keep(place, "one")
        with monkeypatch.context() as patched:
            patched.setattr(shutil, "rmtree", lambda *_, **__: None)
            keep(place, "two")
    with scratch(tmp_path, queue, lease) as place:
        place.fetch()
        assert place.checkpoint.read_text() == "two"
    queue.finish(lease, State.FAILED)
    tidy(jobs)
    assert jobs.database.objects.within("jobs") == []


@on_both_objects
def test_what_is_of_no_use_any_more_is_begun_anew(jobs: Jobs, tmp_path: Path) -> None:
    queued(jobs)
    _, lease = claim(jobs)
    queue, objects = Queue(jobs.database), jobs.database.objects
    with scratch(tmp_path, queue, lease) as place:
        keep(place, "one")
    name = queue.checkpoint(lease)
    if isinstance(objects, S3Objects):
        obstore.delete(objects._store, f"{name}/last.safetensors")
    else:
        (objects.place(name) / "last.safetensors").unlink()
    with scratch(tmp_path, queue, lease) as place:
        place.fetch()
        assert not place.checkpoint.exists()
        keep(place, "two")
    with scratch(tmp_path, queue, lease) as place:
        place.fetch()
        assert place.checkpoint.read_text() == "two"


def test_who_lost_a_job_that_was_deleted_brings_nothing_of_it_back(
    jobs: Jobs, tmp_path: Path
) -> None:
    job = queued(jobs)
    _, asleep = claim(jobs, "one")
    _, lease = claim(jobs, "one")  # it is taken for dead
    queue = Queue(jobs.database)
    jobs.delete(job.id)
    queue.finish(lease, State.CANCELLED)
    discard(jobs, job)
    with pytest.raises(LeaseLost):
        put(tmp_path, queue, asleep)
    assert [*(tmp_path / "jobs").rglob("*")] == []


def test_what_an_earlier_holder_put_goes_with_the_end(jobs: Jobs, tmp_path: Path) -> None:
    job = queued(jobs)
    _, first = claim(jobs, "one")
    queue = Queue(jobs.database)
    with scratch(tmp_path, queue, first) as place:
        place.adapter.mkdir()
        place.put_adapter()  # and it dies
    _, second = claim(jobs, "one")
    put(tmp_path, queue, second)
    tidy(jobs)
    assert jobs.database.objects.within(f"jobs/{job.id}") == ["2"]
    assert jobs.untidy() == []
