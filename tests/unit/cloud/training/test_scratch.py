"""What a lease's holder makes counts while it holds it; what it leaves behind goes."""

from __future__ import annotations

import shutil
from pathlib import Path

import obstore
import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs.ending import discard, tidy
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.queue import Lease, LeaseLost, Queue
from sottovoce.cloud.store.s3 import S3Objects
from sottovoce.cloud.training.worker import Scratch, scratch
from tests.support.buckets import on_both_objects
from tests.support.jobs import claim, queued


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
