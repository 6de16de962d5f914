"""Abandoned uploads and long ended jobs are removed."""

from __future__ import annotations

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import ABANDONED_SECONDS, Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from tests.support.clock import Clock
from tests.support.jobs import claim, create, fill, queued

DAY = 24 * 3600.0


def test_uploads_nobody_goes_on_with_are_given_up(jobs: Jobs) -> None:
    jobs.give_up_abandoned()  # which counts its hour
    abandoned, started, revived = create(jobs, "1"), queued(jobs, "2"), create(jobs, "3")
    fill(jobs, abandoned)
    ran(jobs, ABANDONED_SECONDS - 60)
    fill(jobs, revived)
    late = create(jobs, "1", "other")
    jobs.give_up_abandoned()
    assert jobs.get(abandoned.id).state == State.UPLOADING
    ran(jobs, 120)
    jobs.give_up_abandoned()
    found = jobs.get(abandoned.id)
    assert (found.state, "customise again" in found.message) == (State.CANCELLED, True)
    assert jobs.get(started.id).state == State.QUEUED
    assert {jobs.get(job.id).state for job in (late, revived)} == {State.UPLOADING}
    assert Queue(jobs.database).examples(abandoned.id) == []
    assert len(Queue(jobs.database).examples(started.id)) == 12


def ran(jobs: Jobs, seconds: float) -> None:
    """As if the cloud had run for so long."""
    with jobs.database.write() as transaction:
        transaction.change("UPDATE clock SET awake = awake + :more", more=seconds)


def test_a_clock_that_jumps_gives_no_upload_up(jobs: Jobs, clock: Clock) -> None:
    job, awake = create(jobs), []
    for clock.later in (0, 31 * DAY, 31 * DAY + 60, 32 * DAY, -3650 * DAY, 3650 * DAY):
        jobs.give_up_abandoned()
        assert jobs.get(job.id).state == State.UPLOADING
        with jobs.database.read() as transaction:
            (row,) = transaction.rows("SELECT awake FROM clock")
        awake.append(row["awake"])
    hours = [one - awake[0] for one in awake]
    assert hours == [0, 3600, 3600, 7200, 10800, 14400]  # what is looked at hourly counts in full


def test_past_jobs_are_bounded_and_adapters_in_use_stay(jobs: Jobs) -> None:
    tight = Jobs(jobs.database, ServerLimits(past_jobs=4))
    kept = queued(jobs, "kept")
    adapter = AdapterFiles(jobs.database.state / "kept", "ab")
    Queue(jobs.database).finish(claim(jobs)[1], State.SUCCEEDED, adapter=adapter)
    failed = queued(jobs, "failed")
    Queue(jobs.database).finish(claim(jobs)[1], State.FAILED)
    waiting = create(jobs, "waiting")
    others = create(jobs, "others", "other")
    for number in range(20):
        tight.cancel(create(tight, f"r{number}").id)
    with jobs.database.read() as transaction:
        rows = transaction.rows("SELECT * FROM jobs WHERE tenant = 'acme' ORDER BY number")
    # What ran may have left files: it is deleted, and gone once the worker has seen to those.
    assert [left.id for left in jobs.unpurged()] == [failed.id]
    newest = [f"r{number}" for number in range(15, 20)]
    assert [row["request_id"] for row in rows] == ["kept", "failed", "waiting", *newest]
    jobs.purge(failed.id)
    create(tight, "again")
    assert {job.id for job in jobs.page("acme", page_size=200)[0]} >= {kept.id, waiting.id}
    with jobs.database.read() as transaction:
        assert not transaction.rows("SELECT * FROM jobs WHERE id = :id", id=failed.id)
    assert jobs.get(others.id).state == State.UPLOADING
    assert locate(jobs.database, "acme", "topics") == adapter


def test_an_upload_that_was_deleted_is_not_given_up_too(jobs: Jobs) -> None:
    job = create(jobs)
    with jobs.database.write() as transaction:  # as a deletion cut short
        transaction.change("UPDATE jobs SET deleted = 1")
    ran(jobs, ABANDONED_SECONDS + 60)
    jobs.give_up_abandoned()
    with jobs.database.read() as transaction:
        (row,) = transaction.rows("SELECT state FROM jobs WHERE id = :job", job=job.id)
    assert row["state"] == State.UPLOADING
