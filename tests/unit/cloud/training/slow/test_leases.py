"""Two workers on one state do each job once, even if one dies or sleeps."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from sottovoce.cloud.job import Job, State, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.adapters import digest, locate
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.kills import working
from tests.support.waiting import until

OWNERS = ("one", "two")
LONG, SHORT = 60.0, 2.0
"""Seconds of a lease: none ends by itself, or one ends soon."""


def queue(jobs: Jobs, name: str, epochs: int) -> Job:
    options = TrainingOptions(epochs=epochs, batch_size=8)
    job = jobs.create("acme", name, name, options, RELEASE)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(examples(32))]
    append(jobs, job.id, "acme", 0, uploads, len(WORDS))
    return jobs.start(job.id, "acme", 32)


def row(jobs: Jobs, job: Job) -> dict[str, Any]:
    """All that is stored of a job."""
    with jobs.database.read() as transaction:
        (found,) = transaction.rows("SELECT * FROM jobs WHERE id = :job", job=job.id)
    return dict(found)


def files(state: Path, job: Job) -> list[tuple[str, int]]:
    """What lies in the job's folder: names, and when each was written."""
    home = state / "jobs" / job.id
    return sorted(
        (str(f.relative_to(home)), f.stat().st_mtime_ns) for f in home.rglob("*") if f.is_file()
    )


def test_two_workers_do_each_job_once(jobs: Jobs, bert: str, tmp_path: Path) -> None:
    made = [queue(jobs, f"a{i}", epochs=12) for i in range(4)]

    def at_work() -> set[str]:
        with jobs.database.read() as transaction:
            rows = transaction.rows("SELECT lease_owner FROM jobs WHERE state = 'RUNNING'")
        return {found["lease_owner"] for found in rows}

    def both_at_work() -> bool:
        if jobs.get(made[-1].id).state != State.QUEUED:  # the other worker still starts
            made.append(queue(jobs, f"a{len(made)}", epochs=12))
        return at_work() == set(OWNERS)

    with working(tmp_path, bert, "one", LONG), working(tmp_path, bert, "two", LONG):
        until(both_at_work)
        until(lambda: all(jobs.get(job.id).state == State.SUCCEEDED for job in made))
    found = [row(jobs, job) for job in made]
    assert [each["fence"] for each in found] == [1] * len(made), "each was given out once"
    assert {each["lease_owner"] for each in found} == set(OWNERS)
    for job in made:
        located = locate(jobs.database, "acme", job.adapter)
        assert located.folder == tmp_path / "jobs" / job.id / "1" / "adapter"
        assert located.sha256 == digest(located.folder)


def test_a_killed_workers_job_goes_to_the_other(jobs: Jobs, bert: str, tmp_path: Path) -> None:
    job = queue(jobs, "topics", epochs=25)
    with working(tmp_path, bert, "one", SHORT) as one:
        until(lambda: jobs.get(job.id).progress.epoch > 1)
        with working(tmp_path, bert, "two", SHORT):
            os.kill(one.pid, signal.SIGKILL)
            until(lambda: jobs.get(job.id).state == State.SUCCEEDED)
            until(lambda: not row(jobs, job)["checkpoint"])  # and what it no longer needs is gone
    found = row(jobs, job)
    assert (found["lease_owner"], found["fence"] > 1) == ("two", True)
    assert jobs.get(job.id).progress.epoch == 25
    located = locate(jobs.database, "acme", "topics")
    assert located.folder == tmp_path / "jobs" / job.id / str(found["fence"]) / "adapter"
    assert os.listdir(tmp_path / "jobs" / job.id) == [str(found["fence"])]


def _states(process: int) -> Iterator[str]:
    """Yield the state of each thread, as ps shows it."""
    for file in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):  # it has ended
            yield file.read_text().rpartition(") ")[2][0]


def test_a_worker_that_slept_through_its_lease_changes_nothing_when_it_wakes(
    jobs: Jobs, bert: str, tmp_path: Path
) -> None:
    job = queue(jobs, "topics", epochs=25)
    with working(tmp_path, bert, "one", SHORT) as one:
        until(lambda: jobs.get(job.id).progress.epoch > 1)
        with jobs.database.write():  # or it might sleep with the database in its hands
            os.kill(one.pid, signal.SIGSTOP)
            # Until the signalled thread leaves the disk, the other threads go on.
            until(lambda: set(_states(one.pid)) == {"T"}, 20.0)
        with working(tmp_path, bert, "two", SHORT):
            until(lambda: jobs.get(job.id).state == State.SUCCEEDED)
            until(lambda: not row(jobs, job)["checkpoint"])  # and what it no longer needs is gone
        before = row(jobs, job), files(tmp_path, job), locate(jobs.database, "acme", "topics")
        os.kill(one.pid, signal.SIGCONT)
        following = queue(jobs, "next", epochs=1)
        until(lambda: jobs.get(following.id).state == State.SUCCEEDED)  # it let go of the first
        assert row(jobs, following)["lease_owner"] == "one"
        after = row(jobs, job), files(tmp_path, job), locate(jobs.database, "acme", "topics")
        assert after == before
