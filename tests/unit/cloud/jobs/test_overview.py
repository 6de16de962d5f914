"""The overview is the same on both databases, and names no tenant."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, generate_latest

from sottovoce.cloud.job import Progress, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import LEASE_SECONDS, Queue, overview
from sottovoce.cloud.metrics import JobsCollector
from tests.support.clock import Clock
from tests.support.jobs import claim, create, queued


def test_it_counts_what_is_there_and_the_speed_of_what_runs(jobs: Jobs) -> None:
    queued(jobs, "1"), queued(jobs, "2", "other"), create(jobs, "3")
    for owner, speed in (("one", 12.5), ("two", 30.0)):
        _, lease = claim(jobs, owner)
        Queue(jobs.database).report(lease, Progress(step=3, examples_per_second=speed))
    found = overview(jobs.database)
    assert found.counts == {State.RUNNING: 2, State.UPLOADING: 1}
    assert (found.examples_per_second, found.trainers, found.expired) == (42.5, 2, 0)
    assert [(each.trainer, each.progress.step) for each in found.running] == [
        ("one", 3),
        ("two", 3),
    ]
    Queue(jobs.database).finish(lease, State.SUCCEEDED)
    found = overview(jobs.database)
    assert found.counts == {State.RUNNING: 1, State.UPLOADING: 1, State.SUCCEEDED: 1}
    assert found.examples_per_second == 12.5
    for job in jobs.page()[0]:
        jobs.delete(job.id)
    found = overview(jobs.database)
    assert (found.counts, found.examples_per_second, found.running) == ({}, 0.0, ())


def test_the_queue_is_as_old_as_its_oldest_job(jobs: Jobs, clock: Clock) -> None:
    assert overview(jobs.database).oldest_queued_seconds == 0
    create(jobs, "uploading")
    clock.later += 1000
    queued(jobs, "first")
    clock.later += 30
    queued(jobs, "second", "other")
    clock.later += 12
    assert overview(jobs.database).oldest_queued_seconds == 42
    claim(jobs)
    assert overview(jobs.database).oldest_queued_seconds == 12


def test_a_trainer_counts_while_its_lease_lasts(jobs: Jobs, clock: Clock) -> None:
    queued(jobs, "1"), queued(jobs, "2", "other")
    claim(jobs, "dies")
    clock.later += LEASE_SECONDS - 2
    claim(jobs, "lives")
    clock.later += 3
    found = overview(jobs.database)
    assert (found.trainers, found.expired) == (1, 1)
    assert {each.trainer: each.lease_seconds for each in found.running} == {
        "dies": -1,
        "lives": LEASE_SECONDS - 3,
    }


def test_prometheus_is_told_the_same_and_not_whose_it_is(jobs: Jobs, clock: Clock) -> None:
    registry = CollectorRegistry()
    registry.register(JobsCollector(partial(overview, jobs.database)))
    job = queued(jobs, "1")
    claim(jobs, "canary-owner")
    queued(jobs, "2", "other")
    clock.later += LEASE_SECONDS + 5
    told = generate_latest(registry).decode()
    for line in (
        'sottovoce_jobs{state="running"} 1.0',
        'sottovoce_jobs{state="queued"} 1.0',
        'sottovoce_jobs{state="failed"} 0.0',
        "sottovoce_oldest_queued_seconds 15.0",
        "sottovoce_trainers 0.0",
        "sottovoce_expired_leases 1.0",
        "sottovoce_training_examples_per_second 0.0",
    ):
        assert line in told
    for secret in (job.id, job.tenant, job.adapter, "canary-owner"):
        assert secret not in told
