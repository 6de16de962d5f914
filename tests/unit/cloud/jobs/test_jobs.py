"""Jobs move along their table, belong to one tenant, and forget their examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import FINAL, TRANSITIONS, Progress, State, TrainingOptions
from sottovoce.cloud.jobs import PAGE_BYTES, Jobs
from sottovoce.cloud.jobs.queue import Lease, Queue
from sottovoce.cloud.jobs.records import move
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store.adapters import AdapterFiles, locate
from sottovoce.core.errors import InvalidInput, NotFound, NotReady, QuotaExceeded
from sottovoce.core.rpc import telemetry
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.jobs import (
    OWNER,
    claim,
    create,
    fill,
    in_state,
    queued,
    rows_held,
)


def test_a_job_keeps_the_trace_of_the_call_that_queued_it_until_it_is_purged(jobs: Jobs) -> None:
    assert queued(jobs, "untraced", "other").trace == ""

    class Here:
        """Of a traced call."""

        def here(self) -> str:
            return "00-ab-cd-01"

        def close(self) -> None:
            pass

    with telemetry.noted_by(Here()):
        job = queued(jobs)
    assert jobs.get(job.id).trace == "00-ab-cd-01"
    jobs.delete(job.id)
    jobs.purge(job.id)
    with jobs.database.read() as transaction:
        rows = transaction.rows("SELECT trace FROM jobs")
    assert [row["trace"] for row in rows] == ["", ""]


def test_unfinished_jobs_are_limited_by_tenant(jobs: Jobs) -> None:
    made = [create(jobs, f"r{i}") for i in range(3)]
    with pytest.raises(QuotaExceeded) as caught:
        create(jobs, "r3")
    assert caught.value.subject == "unfinished_jobs"
    create(jobs, "r0")  # a retry is no new job
    create(jobs, "r3", tenant="other")
    jobs.cancel(made[0].id)
    create(jobs, "r3")


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_every_move_is_in_the_table_or_refused(jobs: Jobs, before: State, after: State) -> None:
    job = in_state(jobs, before)
    assert job.state == before
    held = rows_held(jobs)

    def go() -> None:
        with jobs.database.write() as transaction:
            move(transaction, job, after)

    if after in TRANSITIONS[before]:
        go()
        assert jobs.get(job.id).state == after
        assert rows_held(jobs) == (0 if after in FINAL else held)
    else:
        with pytest.raises(NotReady, match=f"{before} cannot become {after}"):
            go()
        assert jobs.get(job.id) == job
        assert rows_held(jobs) == held


REFUSED = "refused"
AFTER: dict[str, dict[State, State | str]] = {
    # What becomes of a job in each state. Nothing else changes a state.
    "upload": {s: s if s == State.UPLOADING else REFUSED for s in State},
    "start": {s: s for s in State} | {State.UPLOADING: State.QUEUED, State.CANCELLED: REFUSED},
    "cancel": {s: s for s in State}
    | {State.UPLOADING: State.CANCELLED, State.QUEUED: State.CANCELLED},
    "claim": {s: s for s in State} | {State.QUEUED: State.RUNNING},
    "finish": {s: State.SUCCEEDED if s == State.RUNNING else REFUSED for s in State},
    "create again": {s: s for s in State},
}


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("operation", AFTER)
def test_every_operation_in_every_state(jobs: Jobs, before: State, operation: str) -> None:
    job = in_state(jobs, before)
    if before == State.UPLOADING:
        fill(jobs, job)
    held = rows_held(jobs)
    one_more = [Upload("new", examples(1)[0])]
    call: dict[str, Callable[[], object]] = {
        "upload": lambda: append(jobs, job.id, "acme", 12, one_more, len(WORDS)),
        "start": lambda: jobs.start(job.id, "acme", 12),
        "cancel": lambda: jobs.cancel(job.id),
        "claim": lambda: Queue(jobs.database).claim(OWNER),
        "finish": lambda: Queue(jobs.database).finish(Lease(job.id, 1), State.SUCCEEDED),
        "create again": lambda: create(jobs),
    }
    expected = AFTER[operation][before]
    if expected == REFUSED:
        with pytest.raises(NotReady) as caught:
            call[operation]()
        assert caught.value.fix
        assert jobs.get(job.id).state == before
    else:
        call[operation]()
        assert jobs.get(job.id).state == expected
    if jobs.get(job.id).state in FINAL:
        assert rows_held(jobs) == 0
    elif operation != "upload":
        assert rows_held(jobs) == held
    asked = before == State.RUNNING and operation == "cancel"
    assert jobs.get(job.id).cancel_requested == asked


@pytest.mark.parametrize("before", State)
def test_deletion_in_every_state_hides_the_job_and_is_not_forgotten(
    jobs: Jobs, before: State
) -> None:
    job = in_state(jobs, before)
    now = jobs.delete(job.id)
    assert now == (before != State.RUNNING)
    with pytest.raises(NotFound):
        jobs.get(job.id)
    # Whoever was to remove the traces may die first: the job stays known until it is purged.
    assert [left.id for left in jobs.unpurged()] == ([job.id] if now else [])
    if not now:
        assert Queue(jobs.database).finish(Lease(job.id, 1), State.CANCELLED)
        assert [left.id for left in jobs.unpurged()] == [job.id]
    jobs.purge(job.id)
    assert jobs.unpurged() == []
    assert Queue(jobs.database).claim(OWNER) is None
    assert rows_held(jobs) == 0


def test_a_job_stored_by_an_earlier_version_is_read_and_found_again(jobs: Jobs) -> None:
    job = create(jobs)
    old = '{"reconstruction": false, "plain_tokens": 0, "epochs": 1, "batch_size": 0, '
    old += '"learning_rate": 0.0, "seed": 0}'
    with jobs.database.write() as transaction:
        transaction.change("UPDATE jobs SET training = :old", old=old)
    assert jobs.get(job.id).training == TrainingOptions(epochs=1)
    assert create(jobs).id == job.id


def test_the_providers_own_limit_on_labels_counts(jobs: Jobs) -> None:
    job = create(jobs)
    total = fill(jobs, job, examples(12))  # of three topics
    with pytest.raises(NotReady):
        Jobs(jobs.database, ServerLimits(labels=2)).start(job.id, "acme", total)
    assert Jobs(jobs.database, ServerLimits(labels=3)).start(job.id, "acme", total).labels == ()


@pytest.mark.parametrize("field", ["level", "policy"])
def test_names_of_a_release_are_short(jobs: Jobs, field: str) -> None:
    release = replace(RELEASE, **{field: "x" * 129})
    with pytest.raises(InvalidInput, match=field):
        jobs.create("acme", "r", "topics", TrainingOptions(), release)


def test_a_request_id_and_a_name_may_be_as_long_as_is_said(jobs: Jobs) -> None:
    longest = create(jobs, "r" * 128)
    assert create(jobs, "r" * 128) == longest
    with pytest.raises(InvalidInput, match="request id"):
        create(jobs, "r" * 129)
    release = replace(RELEASE, level="x" * 128, policy="x" * 128, eta=0.5)
    assert jobs.create("acme", "r", "topics", TrainingOptions(), release).release == release


def test_a_deleted_job_is_not_counted_as_unfinished(jobs: Jobs) -> None:
    made = [queued(jobs, f"r{i}") for i in range(3)]
    claim(jobs)
    assert not jobs.delete(made[0].id)  # it still runs
    create(jobs, "r3")
    with pytest.raises(QuotaExceeded, match="3 jobs"):
        create(jobs, "r4")


def test_a_deleted_jobs_adapter_has_no_name_from_then_on(jobs: Jobs) -> None:
    job = queued(jobs)
    _, lease = claim(jobs)
    folder = jobs.database.state / "jobs" / job.id / "1" / "adapter"
    Queue(jobs.database).finish(lease, State.SUCCEEDED, adapter=AdapterFiles(folder, "ab"))
    assert locate(jobs.database, "acme", "topics").folder == folder
    assert jobs.delete(job.id, "acme")
    with pytest.raises(NotFound):
        locate(jobs.database, "acme", "topics")


def test_a_purged_job_keeps_its_request_id_and_nothing_that_was_said(jobs: Jobs) -> None:
    job = queued(jobs)
    _, lease = claim(jobs)
    Queue(jobs.database).begin(lease, ("a", "b"))
    Queue(jobs.database).report(lease, Progress(3), 1.0)
    Queue(jobs.database).finish(lease, State.FAILED, "why")
    before = jobs.get(job.id)
    jobs.purge(job.id)
    assert jobs.get(job.id) == before, "one that was not deleted is not purged"
    jobs.delete(job.id)
    jobs.purge(job.id)
    with jobs.database.read() as transaction:
        (row,) = transaction.rows("SELECT * FROM jobs")
    kept = [row[name] for name in ("adapter", "labels", "message", "progress", "request_id")]
    assert kept == ["", "[]", "", "{}", "r"]


def test_pages_may_be_of_one_state(jobs: Jobs) -> None:
    made = [create(jobs, f"r{i}").id for i in range(3)]
    jobs.cancel(made[1])
    other = create(jobs, "r", "other").id
    page, token = jobs.page(state=State.UPLOADING, page_size=2)
    assert [job.id for job in page] == [other, made[2]]
    page, token = jobs.page(state=State.UPLOADING, page_size=2, page_token=token)
    assert ([job.id for job in page], token) == ([made[0]], "")
    assert [job.id for job in jobs.page("acme", state=State.CANCELLED)[0]] == [made[1]]
    assert jobs.page("other", state=State.CANCELLED) == ([], "")


@pytest.mark.parametrize("token", ["x", "-1", "9" * 19, "9" * 5_000, "\u0663"])
def test_a_page_token_of_somebody_else_is_refused(jobs: Jobs, token: str) -> None:
    with pytest.raises(InvalidInput, match="page token") as caught:
        jobs.page("acme", page_token=token)
    assert caught.value.subject == "page_token"


def test_a_page_ends_where_a_message_would_be_too_large(jobs: Jobs) -> None:
    made = [jobs.cancel(create(jobs, str(i)).id).id for i in range(6)]
    with jobs.database.write() as transaction:
        labels = json.dumps([f"{i:0256}" for i in range(1_500)])  # 390 kB
        transaction.change("UPDATE jobs SET labels = :labels", labels=labels)
    found: list[str] = []
    token, pages = "", 0
    while token or not pages:
        page, token = jobs.page("acme", page_token=token)
        assert 1 <= len(page) <= 2
        found += [job.id for job in page]
        pages += 1
    assert found == made[::-1]


def test_a_page_holds_fifty_unless_more_are_asked_for_and_never_above_200(jobs: Jobs) -> None:
    roomy = Jobs(jobs.database, ServerLimits(unfinished_jobs=1_000))
    made = [create(roomy, str(i)).id for i in range(202)][::-1]
    for asked, given in ((0, 50), (1, 1), (200, 200), (201, 200)):
        page, token = jobs.page("acme", page_size=asked)
        assert [job.id for job in page] == made[:given]
        assert token
    assert jobs.page("acme") == jobs.page("acme", page_size=50)
    page, token = jobs.page("acme", page_size=2, page_token=jobs.page(page_size=200)[1])
    assert ([job.id for job in page], token) == (made[200:], ""), "the last page is full"
    other = create(jobs, "r", "other")
    assert [job.id for job in jobs.page("other")[0]] == [other.id]
    assert [job.id for job in jobs.page(page_size=2)[0]] == [other.id, made[0]]
    roomy.delete(made[0])
    assert jobs.page("acme", page_size=1)[0][0].id == made[1]


def test_one_jobs_labels_may_fill_a_page_of_their_own(jobs: Jobs) -> None:
    made = [create(jobs, str(i)).id for i in range(2)]
    with jobs.database.write() as transaction:
        transaction.change(
            "UPDATE jobs SET labels = :labels", labels=json.dumps(["x" * PAGE_BYTES])
        )
    page, token = jobs.page("acme")
    assert [job.id for job in page] == made[1:]
    assert [job.id for job in jobs.page("acme", page_token=token)[0]] == made[:1]


def test_a_page_may_be_just_full(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [create(jobs, str(i)).id for i in range(3)]
    monkeypatch.setattr("sottovoce.cloud.jobs.PAGE_BYTES", 2 * len("[]"))
    page, _ = jobs.page("acme")
    assert [job.id for job in page] == made[:0:-1]
