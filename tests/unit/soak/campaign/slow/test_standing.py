"""Each kind of leftover after a kill is found."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest

from soak.campaign.moments import FILE, PROCESS
from soak.campaign.standing import Books, faults_of_cloud, faults_of_device, processes
from sottovoce.cloud.store.adapters import digest
from sottovoce.cloud.store.sqlite import SqliteDatabase
from tests.support.examples import RELEASE
from tests.support.waiting import until


def _written(file: Path, text: str = "something") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _another_adapter(state: Path) -> None:
    shutil.copytree(state / "jobs/done/1", state / "jobs/done/2")


def _examples_kept(state: Path) -> None:
    with closing(sqlite3.connect(state / "sottovoce.db")) as database:
        database.execute("INSERT INTO blocks VALUES ('done', 0, x'00', x'00')")
        database.commit()


def _state(state: Path) -> None:
    with closing(SqliteDatabase(state)) as database, database.write() as transaction:
        transaction.change("INSERT INTO tenants (name, created) VALUES ('acme', 3)")
        for job, deleted in (("done", 0), ("gone", 1)):
            transaction.change(
                "INSERT INTO jobs (id, tenant, request_id, adapter, state, training, release, "
                "deleted, created, updated) VALUES (:job, 'acme', :job, 'topics', 'SUCCEEDED', "
                "'{}', :release, :deleted, 0, 0)",
                job=job,
                release=json.dumps(asdict(RELEASE)),
                deleted=deleted,
            )


LEFT: dict[str, Callable[[Path], object]] = {
    "no adapter": lambda state: shutil.rmtree(state / "jobs/done/1/adapter"),
    "another's bytes": lambda state: _written(state / "jobs/done/1/adapter/file", "other"),
    "an adapter twice": _another_adapter,
    "a checkpoint": lambda state: _written(state / "jobs/done/1/checkpoints/9/file"),
    "of a job that is gone": lambda state: _written(state / "jobs/gone/1/adapter/file"),
    "of a job nobody knows": lambda state: _written(state / "jobs/none/1/adapter/file"),
    "a worker's folder": lambda state: _written(state / "scratch/done.1/file"),
    "examples": _examples_kept,
}


@pytest.mark.parametrize("left", LEFT)
def test_what_a_cloud_has_left_is_told(tmp_path: Path, left: str) -> None:
    _state(tmp_path)
    adapter = tmp_path / "jobs/done/1/adapter"
    _written(adapter / "file")
    with closing(sqlite3.connect(tmp_path / "sottovoce.db")) as database:
        row = ("acme", "topics", "done", "jobs/done/1/adapter", digest(adapter), 0)
        named = "INSERT INTO adapters (tenant, name, job, folder, sha256, created)"
        database.execute(f"{named} VALUES (?, ?, ?, ?, ?, ?)", row)
        database.commit()
    assert [*faults_of_cloud(tmp_path)] == []
    LEFT[left](tmp_path)
    assert len([*faults_of_cloud(tmp_path)]) >= 1


def test_books_that_do_not_agree_are_told() -> None:
    before = Books(releases=10, accounts=10, noted=10)
    assert not [*faults_of_device(before, Books(12, 12, 12), 2, rotated=False)]
    assert not [*faults_of_device(before, Books(10, 10, 0), 0, rotated=True)]
    for wrong in (Books(13, 13, 13), Books(12, 11, 12), Books(12, 12, 11)):
        assert [*faults_of_device(before, wrong, 2, rotated=False)], wrong


def test_whoever_may_still_die_is_found(tmp_path: Path) -> None:
    file = tmp_path / "death"
    environ = os.environ | {FILE: str(file), PROCESS: "device"}
    waiting = subprocess.Popen(["sleep", "100"], env=environ)
    try:
        until(lambda: processes(file) == {waiting.pid: "device"})  # its environment shows late
    finally:
        waiting.kill()
        waiting.wait()
    assert processes(file) == {}
