"""Examples never lie in the open, and are gone with the key of their job, on both databases."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sottovoce.cloud.job import Job, State
from sottovoce.cloud.jobs import Jobs, ending
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.jobs.uploads import Upload, append
from sottovoce.cloud.store import check_objects
from sottovoce.cloud.store.database import Transaction
from sottovoce.cloud.store.keys import MASTER_KEY, Keys
from sottovoce.cloud.store.objects import FileObjects
from sottovoce.core.errors import DataLoss, NotFound, NotReady, Unavailable
from tests.support.buckets import FILES, S3, contents
from tests.support.examples import examples
from tests.support.jobs import claim, create, fill
from tests.support.stores import Store

WORDS = [secrets.token_hex(8) for _ in range(3)]
"""Drawn anew: a server keeps what other tests wrote."""
ROWS = [replace(row, text=f"{row.text} {WORDS[0]}") for row in examples(12)]
ROWS = [replace(row, label=f"{row.label}{WORDS[1]}") for row in ROWS]


on_both = (("sqlite", FILES), ("postgresql", FILES))
on_all = (*on_both, ("postgresql", S3))


def everything(jobs: Jobs, store: Store, state: Path) -> bytes:
    """Every byte of the database, of the files and of a bucket, and their names."""
    files = [f for f in state.rglob("*") if f.is_file()]
    in_files = b"".join(f.read_bytes() + f.name.encode() for f in files)
    return store.on_disk(state) + in_files + contents(jobs.database.objects)


def secret(jobs: Jobs, job: Job) -> bytes:
    """The job's key as it is kept, sealed with the master key."""
    with jobs.database.read() as transaction:
        row = transaction.row("SELECT wrapped FROM keys WHERE job = :job", job=job.id)
    assert row is not None
    found = bytes(row["wrapped"]) or jobs.database.objects.secret(job.id)
    assert found is not None
    assert len(found) == 12 + 32 + 16
    return found


@pytest.fixture
def job(jobs: Jobs) -> Job:
    """A job with the words in every example, which waits to be trained."""
    made = create(jobs)
    fill(jobs, made, ROWS)
    return jobs.start(made.id, "acme", len(ROWS))


@pytest.mark.parametrize(("store", "objects_url"), on_all, indirect=True)
def test_texts_and_labels_are_never_written_in_the_open(
    jobs: Jobs, job: Job, store: Store, tmp_path: Path
) -> None:
    assert Queue(jobs.database).examples(job.id) == ROWS
    held = everything(jobs, store, tmp_path)
    assert job.id.encode() in held, "it looks in the right place"
    for word in WORDS[:2]:
        assert word.encode() not in held


@pytest.mark.parametrize(
    ("store", "objects_url", "way"),
    [(*where, way) for where in on_both for way in ("delete", "cancel", "finish")]
    + [("postgresql", S3, "delete")],
    indirect=["store", "objects_url"],
)
def test_the_key_is_nowhere_once_the_job_has_ended(
    jobs: Jobs, job: Job, store: Store, tmp_path: Path, way: str
) -> None:
    kept = secret(jobs, job)
    assert kept in everything(jobs, store, tmp_path)
    if way == "delete":
        ending.delete(jobs, job.id, "acme")
    elif way == "cancel":
        ending.cancel(jobs, job.id, "acme")
    else:
        _, lease = claim(jobs)
        Queue(jobs.database).finish(lease, State.FAILED)
    held = everything(jobs, store, tmp_path)
    assert kept not in held
    # Nor any part of it that would do to find the rest.
    assert not any(kept[at : at + 8] in held for at in range(0, len(kept) - 7, 4))
    assert not any(word.encode() in held for word in WORDS[:2])
    with jobs.database.read() as transaction:
        assert transaction.rows("SELECT job FROM keys") == []
        with pytest.raises(DataLoss):
            jobs.database.keys.of(transaction, job.id)
    assert Queue(jobs.database).examples(job.id) == []
    if way == "delete":
        with pytest.raises(NotFound):
            jobs.get(job.id)


def test_blocks_alone_are_opened_by_no_other_jobs_key(jobs: Jobs, job: Job) -> None:
    other = create(jobs, "2")
    fill(jobs, other, ROWS)
    with jobs.database.write() as transaction:
        transaction.change("DELETE FROM blocks WHERE job = :job", job=other.id)
        transaction.change("UPDATE blocks SET job = :other", other=other.id)
    with pytest.raises(DataLoss):
        Queue(jobs.database).examples(other.id)


@pytest.mark.parametrize("missing", ["first", "last", "all"])
def test_a_block_that_is_missing_is_noticed(jobs: Jobs, missing: str) -> None:
    job = create(jobs)
    uploads = [Upload(f"e{i}", row) for i, row in enumerate(ROWS)]
    for first in (0, 4, 8):
        append(jobs, job.id, "acme", first, uploads[first : first + 4], 0)
    assert Queue(jobs.database).examples(job.id) == ROWS
    which = {"first": "first = 0", "last": "first = 8", "all": "first >= 0"}[missing]
    with jobs.database.write() as transaction:
        transaction.change(f"DELETE FROM blocks WHERE {which}")
    with pytest.raises(DataLoss, match="not 12"):
        Queue(jobs.database).examples(job.id)


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_key_whose_store_is_away_is_neither_lost_nor_destroyed(
    jobs: Jobs, job: Job, store: Store, tmp_path: Path
) -> None:
    check_objects(jobs.database)
    keys, away = tmp_path / "keys", tmp_path / "away"
    (tmp_path / "objects.id").rename(tmp_path / "id")
    keys.rename(away)
    with closing(store.open(tmp_path)) as trainer:  # which has not opened the key yet
        trainer.objects = jobs.database.objects
        trainer.keys = Keys(tmp_path / MASTER_KEY, trainer.objects)
        with pytest.raises(Unavailable):  # it waits, and the job does not fail
            Queue(trainer).examples(job.id)
    ending.delete(jobs, job.id, "acme")
    (tmp_path / "id").rename(tmp_path / "objects.id")
    away.rename(keys)
    assert jobs.database.objects.secret(job.id)
    assert [each.id for each in jobs.unpurged()] == [job.id]
    jobs.database.keys.destroy(jobs.database)
    assert jobs.database.objects.secret(job.id) is None


def test_what_is_sealed_is_of_few_lengths(jobs: Jobs) -> None:
    sizes = set()
    for number, length in enumerate((1, 20, 300)):
        made = create(jobs, f"r{number}")
        fill(jobs, made, [replace(ROWS[0], text="x" * length)])
        with jobs.database.read() as transaction:
            rows = transaction.rows("SELECT texts FROM blocks WHERE job = :job", job=made.id)
        sizes |= {len(bytes(row["texts"])) for row in rows}
    assert len(sizes) == 1


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_key_that_cannot_be_destroyed_now_is_later(
    jobs: Jobs, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(*_: object) -> None:
        raise Unavailable("away", fix="wait")

    with monkeypatch.context() as patched:
        patched.setattr(FileObjects, "destroy_secret", stuck)
        ending.delete(jobs, job.id, "acme")
    assert jobs.database.objects.secret(job.id)
    jobs.database.keys.destroy(jobs.database)  # as every trainer does before it looks for a job
    assert jobs.database.objects.secret(job.id) is None


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_no_transaction_waits_for_the_store_of_keys(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, open_now, asked = jobs.database, [], []

    def counted(begin: Callable[[], Any]) -> Callable[[], Any]:
        @contextmanager
        def counting() -> Iterator[Transaction]:
            with begin() as transaction:
                open_now.append(transaction)
                try:
                    yield transaction
                finally:
                    open_now.pop()

        return counting

    def outside(real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*given: Any) -> Any:
            asked.append(real.__name__)
            assert not open_now, real.__name__
            return real(*given)

        return ask

    for begin in ("read", "write"):
        monkeypatch.setattr(database, begin, counted(getattr(database, begin)))
    for name in ("put_secret", "secret", "destroy_secret"):
        monkeypatch.setattr(FileObjects, name, outside(getattr(FileObjects, name)))
    made = create(jobs)
    fill(jobs, made)
    for keys in (database.keys, Keys(database.state / MASTER_KEY, database.objects)):
        database.keys = keys  # as another process has none at hand
        fill(jobs, made)
    database.keys = Keys(database.state / MASTER_KEY, database.objects)
    jobs.start(made.id, "acme", 12)
    database.keys = Keys(database.state / MASTER_KEY, database.objects)
    assert len(Queue(database).examples(made.id)) == 12
    ending.cancel(jobs, made.id)
    assert asked == ["put_secret", "secret", "secret", "secret", "destroy_secret"]


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_no_key_is_made_for_a_job_that_takes_no_examples(jobs: Jobs, job: Job) -> None:
    finished = create(jobs, "2")
    jobs.cancel(finished.id)
    for which, tenant in ((finished.id, "acme"), ("../../jobs", "acme"), (job.id, "other")):
        with pytest.raises((NotFound, NotReady)):
            append(jobs, which, tenant, 0, [Upload("e", ROWS[0])], 0)
    jobs.database.keys.fetch(jobs.database, finished.id)
    assert jobs.database.objects.secrets() == [(job.id, job.id)]
