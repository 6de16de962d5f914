"""One worker has a job, tenants take turns, and a late worker changes nothing."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.cloud.job import FINAL, Progress, State
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs import queue as queue_module
from sottovoce.cloud.jobs import queue as wakeup_module
from sottovoce.cloud.jobs.queue import LEASE_SECONDS, Lease, LeaseLost, Queue, Wakeup
from sottovoce.cloud.store import open_database
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from sottovoce.core.errors import NotFound
from tests.support.clock import Clock
from tests.support.jobs import claim, create, finish, opened, queued, rows_held
from tests.support.stores import FileStore, Store
from tests.support.waiting import until

HOUR = 3600.0


@pytest.fixture
def queue(jobs: Jobs) -> Queue:
    """The same as workers see them."""
    return Queue(jobs.database)


def claimed(jobs: Jobs, queue: Queue, trained: float = 0.0) -> list[str]:
    """Jobs in the order they are trained, each for ``trained`` seconds."""
    order = []
    while (next_ := queue.claim("w")) is not None:
        job, lease = next_
        order.append(job.id)
        queue.report(lease, Progress(), trained)
        queue.finish(lease, State.SUCCEEDED)
    return order


def test_tenants_take_turns(jobs: Jobs, queue: Queue) -> None:
    first = [queued(jobs, f"r{i}", "acme").id for i in range(3)]
    second = [queued(jobs, f"r{i}", "other").id for i in range(2)]
    assert claimed(jobs, queue) == [first[0], second[0], first[1], second[1], first[2]]


def test_whose_jobs_take_long_waits_for_the_others(jobs: Jobs, queue: Queue) -> None:
    long = [queued(jobs, f"r{i}", "acme").id for i in range(2)]
    _, lease = claim(jobs)
    for trained in (200.0, 200.0, 600.0):  # so far, each time
        queue.report(lease, Progress(), trained)
    queue.finish(lease, State.SUCCEEDED)
    assert jobs.delete(long[0])  # a deleted job took its time all the same
    jobs.purge(long[0])
    short = [queued(jobs, f"r{i}", "other").id for i in range(3)]
    assert claimed(jobs, queue, 199.0) == [*short, long[1]]
    # 600 and not 1,000 were counted: of one of 601 seconds less is heard again.
    with jobs.database.read() as transaction:
        rows = transaction.rows("SELECT tenant, sum(seconds) AS s FROM usage GROUP BY tenant")
    assert {row["tenant"]: row["s"] for row in rows} == {"acme": 600.0 + 199.0, "other": 3 * 199.0}


@pytest.mark.parametrize(("hours", "counts"), [(23.0, True), (26.0, False)])
def test_what_was_a_day_ago_no_longer_counts(
    jobs: Jobs, queue: Queue, clock: Clock, hours: float, *, counts: bool
) -> None:
    queued(jobs, "1")
    _, lease = claim(jobs)
    queue.report(lease, Progress(), 600.0)
    queue.finish(lease, State.SUCCEEDED)
    clock.later = hours * HOUR
    first, second = queued(jobs, "2"), queued(jobs, "2", "other")
    order = [first.id, second.id]
    assert claimed(jobs, queue) == (order[::-1] if counts else order)
    with jobs.database.read() as transaction:
        rows = transaction.rows("SELECT * FROM usage WHERE tenant = 'acme'")
    assert len(rows) == 1 + counts, "what no longer counts is not kept"


def test_a_claim_costs_the_same_whatever_was_before(tmp_path: Path) -> None:
    """In instructions of SQLite's machine: it visits no row of a job that has ended."""
    with opened(tmp_path, FileStore()) as jobs:
        instructions = _instructions(jobs)
    assert instructions[1] < 2 * instructions[0]


def _instructions(jobs: Jobs) -> list[int]:
    instructions = []
    for past in (1, 2_000):
        with jobs.database.write() as transaction:
            transaction.change(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :past) "
                "INSERT INTO jobs (id, tenant, request_id, adapter, state, training, release, "
                "trained, created, updated) SELECT :past || '-' || i, 'acme', :past || '-' || i, "
                "'a', 'SUCCEEDED', '{}', '{}', 5.0, 0, 0 FROM n",
                past=past,
            )
        queued(jobs, f"a{past}")
        queued(jobs, f"b{past}", "other")
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        connections = (jobs.database._connection, jobs.database._reader)  # type: ignore[attr-defined]
        for connection in connections:
            connection.set_progress_handler(step, 1)
        claim(jobs)
        for connection in connections:
            connection.set_progress_handler(None, 1)
        instructions.append(steps)
        finish(jobs)
        finish(jobs)
    return instructions


def test_the_lowest_number_of_those_left_running_comes_first(
    jobs: Jobs, queue: Queue, clock: Clock
) -> None:
    first, second = queued(jobs, "1"), queued(jobs, "2", tenant="other")
    job, lease = claim(jobs, "one")
    assert (job.id, job.state, job.attempts, lease.token) == (first.id, State.RUNNING, 0, 1)
    assert claim(jobs, "two")[0].id == second.id
    assert queue.claim("three") is None
    clock.later = LEASE_SECONDS + 1
    waiting = queued(jobs, "3", "other")
    taken = [claim(jobs, owner) for owner in ("three", "four", "five")]
    assert [job.id for job, _ in taken] == [first.id, second.id, waiting.id]
    assert [job.attempts for job, _ in taken] == [1, 1, 0]


def test_a_lease_keeps_others_away_until_it_ends(jobs: Jobs, queue: Queue, clock: Clock) -> None:
    job = queued(jobs)
    _, lease = claim(jobs, "one")
    clock.later = LEASE_SECONDS - 1
    assert queue.claim("two") is None
    queue.renew(lease)
    clock.later += LEASE_SECONDS - 1
    assert queue.claim("two") is None, "it was renewed"
    clock.later += 2
    queue.renew(lease)  # it had ended, but nobody has taken the job
    assert queue.claim("two") is None
    clock.later += LEASE_SECONDS + 1
    again, taken = claim(jobs, "two")
    assert (again.id, taken.token) == (job.id, lease.token + 1)


def test_all_that_a_worker_writes_renews_its_lease(jobs: Jobs, queue: Queue, clock: Clock) -> None:
    queued(jobs)
    _, lease = claim(jobs, "one")
    for write in (
        lambda: queue.begin(lease, ("a", "b")),
        lambda: queue.report(lease, Progress(), 1.0),
        lambda: queue.keep(lease, "jobs/1/1/checkpoints/1"),
    ):
        clock.later += LEASE_SECONDS - 1
        write()
    assert queue.claim("two") is None


def test_a_worker_of_the_same_name_goes_on_at_once(jobs: Jobs, queue: Queue) -> None:
    job = queued(jobs)
    _, lease = claim(jobs, "one")
    again, taken = claim(jobs, "one")
    assert (again.id, again.attempts, taken.token) == (job.id, 1, lease.token + 1)


def test_a_job_put_down_in_order_is_anybodys_at_once(jobs: Jobs, queue: Queue) -> None:
    job = queued(jobs)
    claim(jobs, "one")
    _, lease = claim(jobs, "one")
    queue.release(lease)
    assert jobs.get(job.id).attempts == 0
    again, _ = claim(jobs, "two")
    assert (again.id, again.attempts) == (job.id, 0)
    assert queue.claim("three") is None


STALE: dict[str, Callable[[Queue, Lease], object]] = {
    "renew": lambda queue, lease: queue.renew(lease),
    "release": lambda queue, lease: queue.release(lease),
    "begin": lambda queue, lease: queue.begin(lease, ("x", "y")),
    "report": lambda queue, lease: queue.report(lease, Progress(9), 900.0),
    "keep": lambda queue, lease: queue.keep(lease, "stale"),
    "stop requested": lambda queue, lease: queue.stop_requested(lease),
    "finish": lambda queue, lease: queue.finish(lease, State.FAILED, "stale"),
    "finish with an adapter": lambda queue, lease: queue.finish(
        lease, State.SUCCEEDED, adapter=AdapterFiles(queue.database.state / "stale", "0")
    ),
}


def everything(jobs: Jobs) -> list[object]:
    with jobs.database.read() as transaction:
        tables = ("jobs", "examples", "usage", "adapters")
        return [transaction.rows(f"SELECT * FROM {table}") for table in tables]


@pytest.mark.parametrize("call", STALE)
@pytest.mark.parametrize("now", ["another has it", "another has ended it", "it was put down"])
def test_a_worker_whose_job_was_taken_is_refused_and_changes_nothing(
    jobs: Jobs, queue: Queue, clock: Clock, call: str, now: str
) -> None:
    queued(jobs)
    _, stale = claim(jobs, "one")
    queue.report(stale, Progress(1), 5.0)
    clock.later = LEASE_SECONDS + 1
    _, taken = claim(jobs, "two")
    if now == "another has ended it":
        queue.finish(taken, State.SUCCEEDED)
    if now == "it was put down":
        queue.release(taken)
    before = everything(jobs)
    with pytest.raises(LeaseLost):
        STALE[call](queue, stale)
    assert everything(jobs) == before


@pytest.mark.parametrize("end", sorted(FINAL))
def test_examples_are_dropped_and_the_lease_is_over_when_a_job_ends(
    jobs: Jobs, queue: Queue, end: State
) -> None:
    job = queued(jobs)
    assert len(queue.examples(job.id)) == 12
    _, lease = claim(jobs)
    assert rows_held(jobs) == 12
    queue.finish(lease, end, "why")
    assert rows_held(jobs) == 0
    found = jobs.get(job.id)
    assert (found.state, found.next_sequence, found.message) == (end, 12, "why")
    with pytest.raises(LeaseLost):
        queue.finish(lease, State.SUCCEEDED)
    assert queue.claim("w") is None


def test_an_adapter_gets_its_name_with_the_end_of_its_job_or_neither(
    jobs: Jobs, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued(jobs)
    _, lease = claim(jobs)
    made = AdapterFiles(jobs.database.state / "jobs" / job.id / "1" / "adapter", "ab")
    real = queue_module.install

    def cut(*arguments: object, **options: object) -> None:
        real(*arguments, **options)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(queue_module, "install", cut)
    with pytest.raises(KeyboardInterrupt):
        queue.finish(lease, State.SUCCEEDED, adapter=made)
    monkeypatch.undo()
    assert jobs.get(job.id).state == State.RUNNING
    assert rows_held(jobs) == 12
    with pytest.raises(NotFound):
        locate(jobs.database, "acme", "topics")
    assert not queue.finish(lease, State.SUCCEEDED, adapter=made)
    assert jobs.get(job.id).state == State.SUCCEEDED
    assert locate(jobs.database, "acme", "topics") == made


def test_the_adapter_of_a_job_deleted_meanwhile_gets_no_name(jobs: Jobs, queue: Queue) -> None:
    job = queued(jobs)
    _, lease = claim(jobs)
    assert not jobs.delete(job.id)
    made = AdapterFiles(jobs.database.state / "adapter", "ab")
    assert queue.finish(lease, State.SUCCEEDED, adapter=made)
    with pytest.raises(NotFound):
        locate(jobs.database, "acme", "topics")


def test_progress_and_labels_come_back_as_they_were(jobs: Jobs, queue: Queue, clock: Clock) -> None:
    job = queued(jobs)
    progress = Progress(1, 4, 2, 9, 0.5, 3.25, 0.75, 120.0, 7.5)
    _, lease = claim(jobs)
    clock.later = 5.0
    queue.begin(lease, ("a", "b"))
    queue.report(lease, progress, 3.5)
    found = jobs.get(job.id)
    assert (found.labels, found.progress, found.trained) == (("a", "b"), progress, 3.5)
    assert found.updated >= job.updated + 5.0
    clock.later = 9.0
    queue.renew(lease)
    assert jobs.get(job.id) == found, "a heartbeat is no news to those who watch"


def test_deaths_are_counted_until_a_checkpoint_is_kept(jobs: Jobs, queue: Queue) -> None:
    job = queued(jobs)
    assert [claim(jobs)[0].attempts for _ in range(3)] == [0, 1, 2]
    _, lease = claim(jobs)
    queue.keep(lease, "jobs/1/1/checkpoints/1")
    assert jobs.get(job.id).attempts == 0


def test_asking_for_a_job_where_there_is_none_locks_nobody_out(
    jobs: Jobs, queue: Queue, store: Store
) -> None:
    create(jobs)
    queued(jobs)
    claim(jobs, "one")  # nor is what another is training anything to do
    other = store.open(jobs.database.state)
    with other.write():
        assert queue.claim("two") is None
    other.close()


LONG = 3600.0


def announce(state: Path, url: str) -> None:
    database = open_database(state, url)
    with database.write() as transaction:
        transaction.change("UPDATE clock SET awake = awake + 1")
        transaction.announce()
    database.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the sleeps between looks without sleeping."""
    found: list[float] = []
    monkeypatch.setattr(wakeup_module.time, "sleep", found.append)
    return found


def after(looks: list[float], count: int) -> Callable[[], bool]:
    """Ends a wait at a number of looks."""
    return lambda: len(looks) >= count


def test_a_commit_of_another_process_ends_the_wait(tmp_path: Path, store: Store) -> None:
    database = store.open(tmp_path)
    wakeup = Wakeup(database)
    waiting = threading.Thread(target=wakeup.wait, args=(LONG, lambda: False), daemon=True)
    waiting.start()
    other = multiprocessing.get_context("forkserver").Process(
        target=announce, args=(tmp_path, store.url(tmp_path))
    )
    other.start()
    waiting.join(60)
    assert not waiting.is_alive()
    other.join()
    database.close()


def test_a_commit_before_the_wait_is_not_lost_and_counts_once(
    tmp_path: Path, store: Store, looks: list[float]
) -> None:
    database = store.open(tmp_path)
    wakeup, before = Wakeup(database), database.news()
    with database.write() as transaction:  # through this very object
        transaction.change("UPDATE clock SET awake = awake + 1")
        transaction.announce()
    until(lambda: database.news() != before)  # a server sends it on its own time
    looks.clear()
    wakeup.wait(LONG, lambda: False)
    assert looks == []
    wakeup.wait(LONG, after(looks, 7))
    assert len(looks) == 7, "nothing came"
    database.close()


def test_a_wait_ends_with_its_time_or_when_it_need_not_go_on(
    tmp_path: Path, store: Store, looks: list[float]
) -> None:
    database = store.open(tmp_path)
    wakeup = Wakeup(database)
    wakeup.wait(0.0, lambda: False)
    wakeup.wait(LONG, lambda: True)
    assert looks == []
    database.close()
