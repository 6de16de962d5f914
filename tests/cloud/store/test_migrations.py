"""A state of any earlier version becomes one of today, with all it held."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.cloud.job import Example, State
from sottovoce.cloud.jobs.jobs import Jobs
from sottovoce.cloud.jobs.queue import Queue
from sottovoce.cloud.store import migrations
from sottovoce.cloud.store.adapters import digest, locate
from sottovoce.cloud.store.migrations import VERSIONS
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.cloud.tenants import quotas
from sottovoce.cloud.tenants.credentials import Credentials, Scope
from sottovoce.cloud.tenants.tenants import Tenants
from sottovoce.core.errors import NotFound
from tests.support.caller import credentials
from tests.support.old_state import add_open_examples, stored


def adapter(state: Path, job: str, name: str) -> Path:
    """An adapter under its name, as a link to the job's folder."""
    folder = state / "jobs" / job / "adapter"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter.json").write_text(job)
    link = state / "adapters" / "acme" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(f"../../jobs/{job}/adapter")
    return folder


def test_who_only_looks_leaves_an_earlier_version_to_its_servers(tmp_path: Path) -> None:
    stored(tmp_path, len(VERSIONS) - 1)
    for command in (["tokens", "list"], ["enroll", "other"], ["jobs", "list"]):
        done = CliRunner().invoke(main, [*command, "--state", str(tmp_path)])
        assert done.exit_code
        assert "back it up" in done.stderr
    with sqlite3.connect(tmp_path / "sottovoce.db") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(VERSIONS) - 1,)
    connection.close()
    SqliteDatabase(tmp_path).close()
    done = CliRunner().invoke(main, ["enroll", "other", "--state", str(tmp_path)])
    assert done.exit_code == 0


@pytest.mark.parametrize("version", range(len(VERSIONS) + 1))
def test_every_earlier_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    if version:
        stored(tmp_path, version)
    for _ in range(2):  # the second time there is nothing left to do
        database = SqliteDatabase(tmp_path)
        if version:
            job = Jobs(database).get("j", "acme")
            assert (job.training.seed, job.training.method, job.trained) == (4, "lora", 0.0)
            changed = {"examples": 7} if version > 1 else {}
            assert quotas.own(database, "acme") == changed
        with database.read() as transaction:
            found = transaction.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
        database.close()
    fresh = SqliteDatabase(tmp_path / "fresh")
    with fresh.read() as transaction:
        assert found == transaction.rows("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
    fresh.close()


@pytest.mark.parametrize("version", range(1, 8))
def test_an_earlier_token_opens_what_it_did(tmp_path: Path, version: int) -> None:
    stored(tmp_path, version)
    database = SqliteDatabase(tmp_path)
    assert Tenants(database).admit(credentials("acme", "old"), Scope.TRAIN) == "acme"
    (token,), _ = Credentials(database).all("acme")
    assert (token.name, token.scope, token.created, token.ends) == ("first", "all", 3.0, None)
    database.close()


@pytest.mark.parametrize("version", [1, 2])
def test_links_become_rows_and_are_removed(tmp_path: Path, version: int) -> None:
    stored(tmp_path, version)
    folder = adapter(tmp_path, "done", "topics")
    adapter(tmp_path, "gone", "deleted")
    (tmp_path / "adapters" / "acme" / "broken").symlink_to("../../jobs/none/adapter")
    (tmp_path / "adapters" / "acme" / "outside").symlink_to("/")
    (tmp_path / "adapters" / "acme" / ".topics.123").symlink_to("../../jobs/done/adapter")
    for name in ("worker.bell", "worker.lock"):
        (tmp_path / name).write_text("")
    for _ in range(2):
        database = SqliteDatabase(tmp_path)
        found = locate(database, "acme", "topics")
        assert (found.folder, found.sha256) == (folder, digest(folder))
        with database.read() as transaction:
            assert len(transaction.rows("SELECT * FROM adapters")) == 1
        database.close()
    assert sorted(f.name for f in tmp_path.iterdir() if f.name[:9] != "sottovoce") == ["jobs"]
    assert (folder / "adapter.json").read_text() == "done", "what the link led to stays"


def test_a_link_is_there_until_its_row_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(tmp_path, 2)
    folder = adapter(tmp_path, "done", "topics")
    real: Callable[..., None] = migrations.install

    def cut(*arguments: object, **options: object) -> None:
        real(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(migrations, "install", cut)
    with pytest.raises(KeyboardInterrupt):
        SqliteDatabase(tmp_path)
    assert (tmp_path / "adapters" / "acme" / "topics").resolve() == folder
    monkeypatch.undo()
    database = SqliteDatabase(tmp_path)
    assert locate(database, "acme", "topics").folder == folder
    with pytest.raises(NotFound):
        locate(database, "acme", "other")
    database.close()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_job_left_running_is_claimed_with_what_it_had_reached(
    tmp_path: Path, version: int
) -> None:
    stored(tmp_path, version)
    kept = tmp_path / "jobs" / "run" / "checkpoints" / "last.safetensors"
    kept.parent.mkdir(parents=True)
    kept.write_text("half way")
    database = SqliteDatabase(tmp_path)
    claimed = Queue(database).claim("w")
    assert claimed is not None
    job, lease = claimed
    assert (job.id, job.state, lease.token) == ("run", State.RUNNING, 1)
    moved = tmp_path / "jobs" / "run" / "0" / "checkpoints" / "last.safetensors"
    assert moved.read_text() == "half way"
    database.close()


def test_examples_in_the_open_are_sealed(tmp_path: Path) -> None:
    stored(tmp_path, 6)
    rows = add_open_examples(tmp_path, 300)
    for _ in range(2):
        database = SqliteDatabase(tmp_path)
        found = Queue(database).examples("j")
        assert found == [Example(r[2], r[3], ("w",), (3,), r[6]) for r in rows]
        with database.read() as transaction:
            ids = transaction.rows("SELECT example_id FROM examples ORDER BY sequence")
        assert [row["example_id"] for row in ids] == [r[1] for r in rows]
        database.close()
    held = b"".join(f.read_bytes() for f in tmp_path.iterdir())
    assert b"text 7" not in held
    assert b"out 7" not in held


def test_time_in_the_trainer_counts_on(tmp_path: Path) -> None:
    stored(tmp_path, 3)
    database = SqliteDatabase(tmp_path)
    with database.read() as transaction:
        (row,) = transaction.rows("SELECT tenant, seconds FROM usage")
    assert (row["tenant"], row["seconds"]) == ("acme", 50.0)
    database.close()
