"""What two processes do at the same moment ends as if one had come after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import TypeVar

import pytest

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.ending import reinstate
from sottovoce.cloud.jobs.queue import LeaseLost, Queue
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from sottovoce.cloud.tenants import quotas
from sottovoce.core.errors import NotFound, NotReady, QuotaExceeded
from tests.support.jobs import TENANTS, claim, create, fill, opened, queued, rows_held
from tests.support.stores import Store

T = TypeVar("T")
CALLERS = 6
ROUNDS = 5
"""Times that a race is run: who comes first is chance."""


@pytest.fixture
def processes(tmp_path: Path, store: Store) -> Iterator[list[Jobs]]:
    with opened(tmp_path, store) as jobs, ExitStack() as stack:
        others = [store.open(tmp_path) for _ in range(CALLERS - 1)]
        for database in others:
            stack.callback(database.close)
        yield [jobs, *(Jobs(database, jobs.limits) for database in others)]


def at_once(*calls: Callable[[], T]) -> list[T | Exception]:
    """What each call gave or raised, all begun at the same moment."""
    ready = threading.Barrier(len(calls))

    def one(call: Callable[[], T]) -> T | Exception:
        ready.wait(60)
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(one, calls))


def only(kind: type[T], found: list[T | Exception]) -> list[T]:
    return [each for each in found if isinstance(each, kind)]


def test_a_request_id_makes_one_job(processes: list[Jobs]) -> None:
    for number in range(ROUNDS):
        made = at_once(*(partial(create, j, f"r{number}") for j in processes))
        assert len({job.id for job in only(Job, made)}) == 1
        assert len(only(Job, made)) == CALLERS
        processes[0].cancel(only(Job, made)[0].id)


def test_no_more_jobs_are_unfinished_than_may_be(processes: list[Jobs]) -> None:
    for number in range(ROUNDS):
        made = at_once(*(partial(create, j, f"{number}-{i}") for i, j in enumerate(processes)))
        assert (len(only(Job, made)), len(only(QuotaExceeded, made))) == (3, CALLERS - 3)
        for job in only(Job, made):
            processes[0].cancel(job.id)


def test_jobs_together_hold_no_more_than_they_may(processes: list[Jobs]) -> None:
    tight = [Jobs(j.database, replace(j.limits, unfinished_jobs=100)) for j in processes]
    first = create(tight[0], "first")
    fill(tight[0], first)
    size = tight[0].get(first.id).bytes
    tight = [Jobs(j.database, replace(j.limits, held_bytes=3 * size)) for j in tight]
    waiting = [create(j, f"r{i}") for i, j in enumerate(tight)]
    sent = at_once(*map(partial, repeat(fill), tight, waiting))
    assert (sent.count(12), len(only(QuotaExceeded, sent))) == (2, CALLERS - 2)
    assert rows_held(tight[0]) == 36


def test_a_message_sent_over_many_lines_is_stored_once(processes: list[Jobs]) -> None:
    for number in range(ROUNDS):
        job = create(processes[0], f"r{number}")
        sent = at_once(*(partial(fill, j, job) for j in processes))
        assert sent == [12] * CALLERS
        assert processes[0].get(job.id).next_sequence == 12
        assert rows_held(processes[0]) == 12
        processes[0].cancel(job.id)


def test_a_job_is_cancelled_or_started_but_not_both(processes: list[Jobs]) -> None:
    one, other = processes[:2]
    for number in range(ROUNDS):
        job = create(one, f"r{number}")
        fill(one, job)
        at_once(partial(one.start, job.id, "acme", 12), partial(other.cancel, job.id))
        assert one.get(job.id).state == State.CANCELLED
        assert rows_held(one) == 0
        assert Queue(one.database).claim("w") is None


def test_a_deleted_job_leaves_no_adapter_whenever_it_ends(processes: list[Jobs]) -> None:
    one, other = processes[:2]
    made = AdapterFiles(one.database.state / "made", "ab")
    for number in range(ROUNDS):
        job = queued(one, f"r{number}")
        _, lease = claim(one)
        at_once(
            partial(other.delete, job.id),
            partial(Queue(one.database).finish, lease, State.SUCCEEDED, adapter=made),
        )
        with pytest.raises(NotFound):
            locate(one.database, "acme", "topics")
        assert [left.id for left in one.unpurged()] == [job.id]
        one.purge(job.id)


def test_a_job_is_given_to_one_and_none_waits_for_another(processes: list[Jobs]) -> None:
    jobs = processes[0]
    wide = Jobs(jobs.database, ServerLimits(unfinished_jobs=100))
    for number in range(ROUNDS):
        made = [
            queued(wide, f"{number}-{i}", TENANTS[number % 2]).id for i in range(CALLERS)
        ]  # all of one tenant: the same one has the next turn for all who claim
        claims = at_once(
            *(partial(Queue(j.database).claim, f"w{i}") for i, j in enumerate(processes))
        )
        given = [job.id for job, _ in only(tuple, claims)]
        assert sorted(given) == sorted(made)
        for _, lease in only(tuple, claims):
            Queue(jobs.database).finish(lease, State.SUCCEEDED)


def test_a_job_whose_lease_ended_is_given_to_one(processes: list[Jobs]) -> None:
    jobs = processes[0]
    queued(jobs)
    _, lease = claim(jobs, "first")
    for _ in range(ROUNDS):
        Queue(jobs.database).release(lease)
        claims = at_once(
            *(partial(Queue(j.database).claim, f"w{i}") for i, j in enumerate(processes))
        )
        (taken,) = only(tuple, claims)
        lease = taken[1]
        assert claims.count(None) == CALLERS - 1


def test_a_job_ends_once(processes: list[Jobs]) -> None:
    for number in range(ROUNDS):
        queued(processes[0], f"r{number}")
        _, lease = claim(processes[0])
        ends = at_once(
            *(partial(Queue(j.database).finish, lease, State.SUCCEEDED) for j in processes)
        )
        assert (ends.count(False), len(only(LeaseLost, ends))) == (1, CALLERS - 1)


def test_a_limit_is_changed_by_all_who_change_it(processes: list[Jobs]) -> None:
    for _ in range(ROUNDS):
        changes = at_once(
            *(
                partial(quotas.change, j.database, "acme", "examples", i + 1)
                for i, j in enumerate(processes)
            )
        )
        assert changes == [None] * CALLERS
        assert quotas.own(processes[0].database, "acme")["examples"] in range(1, CALLERS + 1)
        quotas.change(processes[0].database, "acme", "examples", None)


def test_an_hour_is_counted_once(processes: list[Jobs]) -> None:
    at_once(*(j.give_up_abandoned for j in processes))
    with processes[0].database.read() as transaction:
        assert transaction.rows("SELECT awake FROM clock") == [{"awake": 3600.0}]


def test_what_is_given_up_is_not_started_too(processes: list[Jobs]) -> None:
    one, other = processes[:2]
    for number in range(ROUNDS):
        job = create(one, f"r{number}")
        fill(one, job)
        with one.database.write() as transaction:
            transaction.change("UPDATE jobs SET touched = -1e9 WHERE id = :job", job=job.id)
        started, _ = at_once(partial(one.start, job.id, "acme", 12), other.give_up_abandoned)
        gave_up = isinstance(started, NotReady)
        assert one.get(job.id).state == (State.CANCELLED if gave_up else State.QUEUED)
        assert rows_held(one) == (0 if gave_up else 12)
        one.cancel(job.id)


def test_what_is_had_back_is_not_forgotten(processes: list[Jobs]) -> None:
    one, other = (Jobs(j.database, replace(j.limits, past_jobs=1)) for j in processes[:2])
    for number in range(ROUNDS):
        made = []
        for version in ("old", "new"):
            job = queued(one, f"{number}-{version}")
            _, lease = claim(one)
            folder = one.database.state / "jobs" / job.id / "1" / "adapter"
            folder.mkdir(parents=True)
            files = AdapterFiles.of(folder)
            Queue(one.database).finish(lease, State.SUCCEEDED, adapter=files)
            made.append(job)
        had, _ = at_once(
            partial(reinstate, one, made[0].id), partial(create, other, f"{number}-more")
        )
        with one.database.read() as transaction:
            rows = transaction.rows(
                "SELECT deleted FROM jobs WHERE id IN (SELECT job FROM adapters)"
            )
        assert rows == [{"deleted": 0}], "a name stands for a job that there is"
        assert isinstance(had, Job | NotFound)
        for job in one.page("acme")[0]:
            one.cancel(job.id)
