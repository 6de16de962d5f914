"""Every example arrives exactly once, in order, or is refused with a reason."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sottovoce.cloud.config import ServerLimits
from sottovoce.cloud.job import Example, Job, TrainingOptions
from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.tenants import Tenants, quotas
from sottovoce.core.errors import InvalidInput, OutOfRange, QuotaExceeded
from tests.support.examples import RELEASE, WORDS, examples
from tests.support.stores import Store

ROWS = [Upload(f"e{i}", row) for i, row in enumerate(examples(12, plain=2))]


@pytest.fixture
def jobs(tmp_path: Path, store: Store) -> Iterator[Jobs]:
    """Jobs of at most 40 examples."""
    database = store.open(tmp_path)
    Tenants(database).enroll("acme")
    yield Jobs(database, ServerLimits(examples=40, unfinished_jobs=10_000))
    database.close()


def create(jobs: Jobs, request_id: str = "r") -> Job:
    training = TrainingOptions(reconstruction=True, plain_tokens=2)
    return jobs.create("acme", request_id, "topics", training, RELEASE)


def send(jobs: Jobs, job: Job, first: int, uploads: list[Upload]) -> int:
    return append(jobs, job.id, "acme", first, uploads, len(WORDS))


def test_outputs_come_back_and_count_as_bytes(jobs: Jobs) -> None:
    job = jobs.create("acme", "r", "topics", TrainingOptions(task="generation"), RELEASE)
    rows = [Upload(f"e{i}", Example("né", output=f"ø{i}")) for i in range(8)]
    assert send(jobs, job, 0, rows) == 8
    assert Queue(jobs.database).examples(job.id) == [upload.example for upload in rows]
    assert jobs.get(job.id).bytes == 8 * 6
    with pytest.raises(InvalidInput, match="released_output"):
        send(jobs, job, 8, [Upload("e8", Example("né", output="x" * 65_537))])


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12))
def test_any_order_of_retries_ends_in_each_example_once(
    jobs: Jobs, sends: list[tuple[int, int]]
) -> None:
    job = create(jobs, uuid.uuid4().hex)
    held = 0
    for first, end in sends:
        if first > held:
            with pytest.raises(OutOfRange):
                send(jobs, job, first, ROWS[first:end])
            continue
        held = max(held, end if end > first else held)
        assert send(jobs, job, first, ROWS[first:end]) == held
    assert Queue(jobs.database).examples(job.id) == [upload.example for upload in ROWS[:held]]


def test_unfinished_jobs_hold_so_many_bytes_together(jobs: Jobs) -> None:
    first, second = create(jobs, "1"), create(jobs, "2")
    send(jobs, first, 0, ROWS[:12])
    taken = jobs.get(first.id).bytes
    tight = Jobs(jobs.database, ServerLimits(held_bytes=taken + 10))
    with pytest.raises(QuotaExceeded, match="cancel or delete") as caught:
        send(tight, second, 0, ROWS[:2])
    assert caught.value.subject == "held_bytes"
    assert send(tight, first, 11, ROWS[11:12]) == 12  # repeats take no room
    jobs.start(first.id, "acme", 12)
    with pytest.raises(QuotaExceeded):  # what waits or runs is still held
        send(tight, second, 0, ROWS[:2])
    jobs.cancel(first.id)
    assert send(tight, second, 0, ROWS[:2]) == 2
    with pytest.raises(QuotaExceeded) as caught:  # nor will waiting ever make room for this one
        send(Jobs(jobs.database, ServerLimits(held_bytes=10)), second, 2, ROWS[2:12])
    assert caught.value.subject == "upload_bytes"


def test_a_job_takes_so_many_bytes_and_no_more(jobs: Jobs) -> None:
    job = create(jobs)
    send(jobs, job, 0, ROWS[:3])
    example = ROWS[3].example
    one = len("".join((example.text, example.label, *example.plain_tokens)).encode())
    room = jobs.get(job.id).bytes + one
    tight = Jobs(jobs.database, ServerLimits(upload_bytes=room))
    with pytest.raises(QuotaExceeded) as caught:
        send(tight, job, 3, ROWS[3:5])
    assert caught.value.subject == "upload_bytes"
    assert send(tight, job, 3, ROWS[3:4]) == 4
    assert jobs.get(job.id).bytes == room
    assert send(tight, job, 2, ROWS[2:4]) == 4  # repeats take no room


def test_a_tenants_own_limit_counts(jobs: Jobs) -> None:
    job = create(jobs)
    quotas.change(jobs.database, "acme", "examples", 5)
    with pytest.raises(QuotaExceeded, match="at most 5 examples"):
        send(jobs, job, 0, ROWS[:6])
    quotas.change(jobs.database, "acme", "examples", None)
    assert send(jobs, job, 0, ROWS[:6]) == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "  "),
        ("text", "x" * 65_537),
        ("label", ""),
        ("label", "x" * 257),
        ("plain_tokens", ("a",)),
        ("plain_tokens", ("a", "")),
        ("plain_tokens", ("a", "x" * 257)),
        ("plain_tokens", ("a", "b", "c")),
        ("plain_token_ids", (-1, 0)),
        ("plain_token_ids", (1, 2, 3)),
        ("plain_token_ids", (1, len(WORDS))),
    ],
)
def test_malformed_examples_are_named_by_field_and_never_quoted(
    jobs: Jobs, field: str, value: object
) -> None:
    job = create(jobs)
    broken = replace(ROWS[1].example, **{field: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="example 1:") as caught:
        send(jobs, job, 0, [ROWS[0], Upload("e1", broken)])
    assert field.removesuffix("s") in caught.value.subject
    assert ROWS[1].example.text not in str(caught.value)
    assert jobs.get(job.id).next_sequence == 0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", "x" * 65_536),
        ("label", "x"),
        ("label", "x" * 256),
        ("plain_tokens", ("a", "x" * 256)),
        ("plain_token_ids", (0, len(WORDS) - 1)),
    ],
)
def test_the_largest_and_the_smallest_that_are_allowed(
    jobs: Jobs, field: str, value: object
) -> None:
    job = create(jobs)
    example = replace(ROWS[0].example, **{field: value})  # type: ignore[arg-type]
    assert send(jobs, job, 0, [Upload("x" * 64, example)]) == 1
    assert Queue(jobs.database).examples(job.id) == [example]


def test_bytes_and_the_time_of_the_last_message_are_kept(jobs: Jobs) -> None:
    job = create(jobs)
    send(jobs, job, 0, ROWS[:2])
    first = jobs.get(job.id)
    send(jobs, job, 1, ROWS[1:4])
    second = jobs.get(job.id)
    parts = [(u.example.text, u.example.label, *u.example.plain_tokens) for u in ROWS[:4]]
    assert second.bytes == sum(len(part.encode()) for each in parts for part in each)
    assert job.updated < first.updated < second.updated
