"""On a disk that is full to the last byte jobs can still be cancelled and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs import Jobs, ending
from sottovoce.cloud.jobs.ending import cancel, delete, keep_room
from sottovoce.core.errors import NotFound, Unavailable
from tests.support.examples import examples
from tests.support.full_disk import FullDisk, in_memory, no_mounts
from tests.support.jobs import claim, create, fill, opened, rows_held
from tests.support.stores import FileStore

RESERVE_BYTES = 4 << 20
DISK_BYTES = 7 * RESERVE_BYTES
TEXT_BYTES = 60_000


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FullDisk]:
    """A small one, of which little room is kept."""
    monkeypatch.setattr(ending, "RESERVE_BYTES", RESERVE_BYTES)
    if lacking := no_mounts():
        pytest.skip(lacking)
    with in_memory(tmp_path / "disk", DISK_BYTES >> 20) as disk:
        yield disk


@pytest.fixture
def jobs(disk: FullDisk) -> Iterator[Jobs]:
    """The jobs of two tenants, on the small disk."""
    with opened(disk.folder / "state", FileStore()) as jobs:
        keep_room(jobs.database.state)
        yield jobs


def large(jobs: Jobs, request_id: str) -> Job:
    """Return a job with more examples than the kept room holds."""
    job = create(jobs, request_id)
    number = RESERVE_BYTES // TEXT_BYTES * 3 // 2
    fill(jobs, job, [replace(row, text="a" * TEXT_BYTES) for row in examples(number)])
    jobs.database.scrub()
    return jobs.get(job.id)


def test_jobs_can_be_ended(jobs: Jobs, disk: FullDisk) -> None:
    cancelled, deleted = large(jobs, "1"), large(jobs, "2")
    disk.fill()
    with pytest.raises(Unavailable):
        create(jobs, "3")
    with pytest.raises(Unavailable):
        jobs.cancel(cancelled.id)
    assert cancel(jobs, cancelled.id, "acme").state == State.CANCELLED
    assert rows_held(jobs) == deleted.next_sequence
    delete(jobs, deleted.id, "acme")
    assert rows_held(jobs) == 0
    assert jobs.unpurged() == []
    with pytest.raises(NotFound):
        jobs.get(deleted.id)
    disk.free()
    keep_room(jobs.database.state)
    assert (jobs.database.state / "reserve").stat().st_size == RESERVE_BYTES


def test_what_is_anothers_or_is_running_keeps_its_examples(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = create(jobs)
    held = fill(jobs, job)

    def busy(self: Jobs, job_id: str, tenant: str | None) -> Job:
        raise Unavailable("busy")

    monkeypatch.setattr(Jobs, "cancel", busy)
    with pytest.raises(NotFound):
        cancel(jobs, job.id, "other")
    jobs.start(job.id, "acme", held)
    claim(jobs)
    with pytest.raises(Unavailable):
        cancel(jobs, job.id, "acme")
    assert rows_held(jobs) == held


def test_what_does_not_fit_is_not_kept(disk: FullDisk) -> None:
    disk.fill()
    keep_room(disk.folder)
    assert not (disk.folder / "reserve").exists()
