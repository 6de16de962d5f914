"""The database file keeps whole transactions, for one user, in one version."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.cloud.store import sqlite as sqlite_module
from sottovoce.cloud.store.database import VERSION
from sottovoce.cloud.store.sqlite import SqliteDatabase
from sottovoce.core.errors import ConfigError, DataLoss, NotFound, NotReady, Unavailable
from tests.support.locks import locked


def enroll(database: SqliteDatabase, name: str) -> None:
    with database.write() as transaction:
        transaction.change("INSERT INTO tenants (name, created) VALUES (:name, 0)", name=name)


def tenants(database: SqliteDatabase) -> int:
    with database.read() as transaction:
        (row,) = transaction.rows("SELECT count(*) AS n FROM tenants")
    return int(row["n"])


def test_rows_cannot_outlive_what_they_belong_to(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    with pytest.raises(sqlite3.IntegrityError), database.write() as transaction:
        transaction.change("INSERT INTO examples VALUES ('none', 0, 'e')")
    database.close()


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "state")
    assert stat.S_IMODE((tmp_path / "state" / "sottovoce.db").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700
    database.close()


@pytest.mark.parametrize(
    ("version", "fix"),
    [
        *((older, "new --state") for older in (-1, 1, VERSION - 1)),
        *((newer, "newer program") for newer in (VERSION + 1, 99)),
    ],
)
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_state_of_another_version_is_refused_and_stays_as_it_is(
    tmp_path: Path, version: int, fix: str, journal: str
) -> None:
    database = SqliteDatabase(tmp_path)
    enroll(database, "a")
    database.close()
    set_version(tmp_path, version, journal)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    said = rf"version {version}\b.* version {VERSION}\b"
    for create in (True, False):
        with pytest.raises(ConfigError, match=said) as caught:
            SqliteDatabase(tmp_path, create=create)
        assert fix in caught.value.fix
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for command in ("tokens list", "enroll other", "jobs list"):
        done = CliRunner().invoke(main, [*command.split(), "--state", str(tmp_path)])
        assert done.exit_code == ConfigError.exit_code
        assert fix in done.stderr
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    set_version(tmp_path, VERSION, journal)
    database = SqliteDatabase(tmp_path, create=False)
    assert tenants(database) == 1
    database.close()


def set_version(state: Path, version: int, journal: str) -> None:
    connection = sqlite3.connect(state / "sottovoce.db")
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()


def test_an_empty_file_is_no_state_until_a_server_starts(tmp_path: Path) -> None:
    (tmp_path / "sottovoce.db").touch(mode=0o600)
    with pytest.raises(NotFound, match="no state"):
        SqliteDatabase(tmp_path, create=False)
    assert (tmp_path / "sottovoce.db").read_bytes() == b""
    SqliteDatabase(tmp_path).close()
    SqliteDatabase(tmp_path, create=False).close()


@pytest.mark.parametrize("pragma", [("synchronous", 2), ("secure_delete", 1), ("foreign_keys", 1)])
def test_what_writes_waits_for_the_disk_and_overwrites_what_it_deletes(
    tmp_path: Path, pragma: tuple[str, int]
) -> None:
    name, value = pragma
    for _ in range(2):  # as it is made, and as it is opened again
        database = SqliteDatabase(tmp_path)
        with database.write() as transaction:
            (row,) = transaction.rows(f"PRAGMA {name}")
        assert list(row.values()) == [value]
        with database.read() as transaction:
            (row,) = transaction.rows("PRAGMA query_only")
        assert list(row.values()) == [1], "and the other connection does not write"
        database.close()


def test_the_clock_is_the_databases(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path, clock=lambda: 12.5)
    with database.write() as transaction:
        assert transaction.now() == 12.5
    with database.read() as transaction:
        assert transaction.now() == 12.5
    database.close()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NotReady, match="cannot write"):
        SqliteDatabase(tmp_path / "file")


def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "sottovoce.db").mkdir()
    with pytest.raises(NotReady, match="cannot write"):
        SqliteDatabase(tmp_path)


def test_a_full_disk_is_said_and_passes(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    (pages,) = database._connection.execute("PRAGMA page_count").fetchone()
    database._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(Unavailable, match="cannot write"), database.write() as transaction:
        transaction.change("INSERT INTO tenants (name, created) VALUES (hex(zeroblob(1000000)), 0)")
    assert tenants(database) == 0
    database._connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    enroll(database, "b")
    assert tenants(database) == 1
    database.close()


def test_a_disk_that_is_full_at_the_start_is_not_called_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(file, isolation_level=None)
        connection.execute("PRAGMA max_page_count = 1")
        return connection

    monkeypatch.setattr(sqlite_module, "_connected", full)
    with pytest.raises(Unavailable) as caught:
        SqliteDatabase(tmp_path)
    assert "backup" not in caught.value.fix


def test_a_commit_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)

    def fail() -> None:
        with database.write() as transaction:
            # Checked at the commit, like the flush of a disk that fails.
            transaction.change("PRAGMA defer_foreign_keys = ON")
            transaction.change("INSERT INTO examples VALUES ('none', 0, 'e')")

    with pytest.raises(sqlite3.IntegrityError):
        fail()
    enroll(database, "b")
    assert tenants(database) == 1
    database.close()


def test_to_open_it_twice_takes_no_locks_away(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file when the process closes any of its descriptors."""
    database = SqliteDatabase(tmp_path)
    SqliteDatabase(tmp_path).close()
    assert locked(os.getpid(), tmp_path / "sottovoce.db") == {"", "-shm"}
    program = (
        "import pathlib, sys; from sottovoce.cloud.store.sqlite import SqliteDatabase;"
        " SqliteDatabase(pathlib.Path(sys.argv[1])).close()"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True)
    assert (tmp_path / "sottovoce.db-wal").exists()  # its user here is still known
    enroll(database, "a")
    assert tenants(database) == 1
    database.close()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_nothing_is_read_or_written_once_its_files_are_others(tmp_path: Path, suffix: str) -> None:
    database = SqliteDatabase(tmp_path)
    enroll(database, "a")
    file = tmp_path / f"sottovoce.db{suffix}"
    file.rename(tmp_path / "aside")
    for act in (
        lambda: tenants(database),
        lambda: enroll(database, "b"),
        database.news,
        database.scrub,
    ):
        with pytest.raises(DataLoss, match="removed or replaced") as caught:
            act()
        assert str(tmp_path) not in str(caught.value)  # tenants read it
    with pytest.raises(DataLoss, match=f"{file.name} was removed or replaced"):
        database.close()
    (tmp_path / "aside").rename(file)
    assert tenants(database) == 1
    database.close()


def test_reading_waits_for_no_writer(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path)
    enroll(database, "a")
    with database.write() as transaction, ThreadPoolExecutor(1) as threads:
        transaction.change("INSERT INTO tenants (name, created) VALUES ('b', 0)")
        assert threads.submit(tenants, database).result(60) == 1  # what is committed
    assert tenants(database) == 2
    with database.read() as transaction, pytest.raises(sqlite3.OperationalError, match="readonly"):
        transaction.change("DELETE FROM tenants")
    database.close()


def test_a_damaged_page_is_an_error_of_ours_whichever_it_is(tmp_path: Path) -> None:
    whole = SqliteDatabase(tmp_path / "whole")
    for number in range(200):
        enroll(whole, f"tenant-{number}")
    whole.close()
    data = (tmp_path / "whole" / "sottovoce.db").read_bytes()
    pages = [*range(0, len(data), 4096)]
    refused = 0
    for page in pages:
        state = tmp_path / str(page)
        state.mkdir(mode=0o700)
        bad = data[:page] + b"\xff" * 4096 + data[page + 4096 :]
        (state / "sottovoce.db").write_bytes(bad)
        try:
            database = SqliteDatabase(state)
        except DataLoss:
            refused += 1
            continue
        for use in (tenants, lambda database: enroll(database, "another")):
            try:
                use(database)
            except DataLoss:
                refused += 1
        database.close()
    assert refused > 2
    assert len(pages) > 10
