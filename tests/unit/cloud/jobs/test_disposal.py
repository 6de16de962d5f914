"""Leftovers of jobs are removed, wherever they are, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import Jobs, ending, records
from sottovoce.cloud.jobs.ending import (
    adapter_name,
    clear,
    discard,
    discard_left,
    sweep,
    tidy,
)
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.jobs.records import move
from sottovoce.cloud.store.objects import FileObjects
from sottovoce.core.errors import Unavailable
from tests.support.buckets import on_both_objects
from tests.support.jobs import claim, create, fill, finish, queued
from tests.support.leftovers import age, left_of


@on_both_objects
def test_what_is_put_for_a_forgotten_job_goes_and_what_others_have_stays(
    jobs: Jobs, tmp_path: Path
) -> None:
    queued(jobs, "1")
    gone = finish(jobs)
    jobs.delete(gone.id)
    discard(jobs, gone)
    queued(jobs, "2")
    ended = finish(jobs)
    queued(jobs, "3")
    removed = finish(jobs)
    waits = queued(jobs, "4")
    jobs.delete(removed.id)  # which a worker is yet to finish, and will
    kept = [each.id for each in (ended, waits, removed)]
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights").write_text("w")
    objects = jobs.database.objects
    for job in (gone.id, "0123" * 6, *kept, "lost+found"):
        objects.put(source, adapter_name(job, 1))
    sweep(jobs)
    assert objects.within("jobs") == sorted([*kept, "lost+found"])
    for job in kept:
        with objects.at(adapter_name(job, 1)) as folder:
            assert (folder / "weights").read_text() == "w"


@pytest.mark.server
@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_keys_go_that_no_row_tells_of_once_their_job_has_ended(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    uploading, gone, waits = create(jobs, "1"), create(jobs, "2"), queued(jobs, "3")
    with monkeypatch.context() as patched:
        patched.setattr(records, "write", cut)
        for job in (uploading, gone):
            with pytest.raises(KeyboardInterrupt):
                fill(jobs, job)
    objects = jobs.database.objects
    objects.put_secret(f".{gone.id}.0123", b"half")
    ending.delete(jobs, gone.id)
    sweep(jobs)
    assert {name for _, name in objects.secrets()} == {uploading.id, waits.id}
    assert jobs.start(uploading.id, "acme", fill(jobs, uploading)).state == State.QUEUED
    assert len(Queue(jobs.database).examples(uploading.id)) == 12


@pytest.mark.server
@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_a_key_that_cannot_be_destroyed_is_in_nobodys_way(
    jobs: Jobs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    objects, keys = jobs.database.objects, tmp_path / "keys"
    gone = [f"{n:024x}" for n in range(3)]
    for job in (gone[0], gone[2]):
        objects.put_secret(job, b"key")
    stray = [".snapshot", "lost+found", "notes.txt", "cafe"]
    for name in (gone[1], *stray):
        (keys / name).mkdir()
    sweep(jobs)
    assert {f.name for f in keys.iterdir()} == {gone[1], *stray}
    assert gone[1] in caplog.text
    assert "lost" not in caplog.text
    (keys / gone[1]).rmdir()
    ended = [queued(jobs, str(n)).id for n in range(3)]
    stuck = keys / ended[1]
    stuck.rename(tmp_path / "aside")
    stuck.mkdir()
    for job in ended:
        ending.cancel(jobs, job)
    assert {f.name for f in keys.iterdir()} == {ended[1], *stray}
    stuck.rmdir()
    (tmp_path / "aside").rename(stuck)
    jobs.database.keys.destroy(jobs.database)
    assert {f.name for f in keys.iterdir()} == {*stray}


@pytest.mark.server
@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_store_that_is_away_is_waited_for_once(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    waited = []

    def asked(self: FileObjects) -> None:
        if when == "before" or waited:
            waited.append("id")
            raise Unavailable("away", fix="wait")

    def silent(self: FileObjects, name: str) -> None:
        waited.append(name)
        raise Unavailable("away", fix="wait")

    ids = [queued(jobs, str(n)).id for n in range(3)]
    with monkeypatch.context() as patched:
        patched.setattr(FileObjects, "reach", asked)
        for name in ("destroy_secret", "remove"):
            patched.setattr(FileObjects, name, silent)
        with jobs.database.write() as transaction:
            for job in ids[:-1]:
                move(transaction, jobs.get(job), State.CANCELLED)
        most = 1 if when == "before" else 2
        for act in (
            lambda: ending.cancel(jobs, ids[-1]),
            lambda: jobs.database.keys.destroy(jobs.database),
            lambda: tidy(jobs),
            lambda: sweep(jobs),
        ):
            waited.clear()
            act()
            assert len(waited) <= most, act
        for job in ids:
            jobs.delete(job)
        waited.clear()
        discard_left(jobs)
        assert len(waited) == most
    discard_left(jobs)
    jobs.database.keys.destroy(jobs.database)
    assert jobs.unpurged() == []
    assert jobs.database.objects.secrets() == []


def test_only_folders_of_holders_that_are_none_go(jobs: Jobs, tmp_path: Path) -> None:
    queued(jobs)
    _, lease = claim(jobs)
    home = tmp_path / "scratch"
    held, gone = f"{lease.job}.{lease.token}", f"{lease.job}.{lease.token + 1}"
    stray = (".nfs0000000000c0ffee", "notes.txt", f"abc.{'9' * 30}", ".2")
    for name in (held, gone, *stray):
        (home / name).mkdir(parents=True)
    left = left_of(tmp_path / "signing.key")
    left.touch()
    age(left)
    clear(tmp_path, Queue(jobs.database))
    assert {f.name for f in home.iterdir()} == {held, *stray}
    assert not left.exists()
