"""What is left of jobs goes, wherever it lies, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.cloud.job import State
from sottovoce.cloud.jobs import ending, examples
from sottovoce.cloud.jobs.disposal import adapter_name, clear, discard, sweep
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from tests.support.buckets import on_both_objects
from tests.support.jobs import claim, create, fill, finish, queued


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
    for job in (gone.id, "never", *kept):
        objects.put(source, adapter_name(job, 1))
    sweep(jobs)
    assert objects.within("jobs") == sorted(kept)
    for job in kept:
        with objects.at(adapter_name(job, 1)) as folder:
            assert (folder / "weights").read_text() == "w"


@pytest.mark.parametrize("store", ["postgresql"], indirect=True)
def test_keys_go_that_no_row_tells_of_once_their_job_has_ended(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    uploading, gone, waits = create(jobs, "1"), create(jobs, "2"), queued(jobs, "3")
    with monkeypatch.context() as patched:
        patched.setattr(examples, "write", cut)
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


def test_only_folders_of_holders_that_are_none_go(jobs: Jobs, tmp_path: Path) -> None:
    queued(jobs)
    _, lease = claim(jobs)
    home = tmp_path / "scratch"
    held, gone = f"{lease.job}.{lease.token}", f"{lease.job}.{lease.token + 1}"
    stray = (".nfs0000000000c0ffee", "notes.txt", f"abc.{'9' * 30}", ".2")
    for name in (held, gone, *stray):
        (home / name).mkdir(parents=True)
    clear(tmp_path, Queue(jobs.database))
    assert {f.name for f in home.iterdir()} == {held, *stray}
