"""Database files are private at once, and no connection loses its locks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss
from sottovoce.core.platform.files import DatabaseFiles, make_database
from tests.support.locks import locked

HELD = {"", "-shm"}


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE IF NOT EXISTS t (n)")
    connection.execute("INSERT INTO t VALUES (1)")
    return connection


def _elsewhere(path: Path, statement: str, *, killed: bool = False) -> None:
    """Another process changes the database, and closes it unless it is killed."""
    program = f"""
import os, sqlite3
connection = sqlite3.connect({str(path)!r}, isolation_level=None)
connection.execute({statement!r})
if {killed}:
    os.kill(os.getpid(), 9)
connection.close()
"""
    subprocess.run([sys.executable, "-c", program], check=not killed)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Path]:
    """A database that is in use by this process, until its connection is closed."""
    path = tmp_path / "a.db"
    make_database(path)
    return path


def test_a_new_database_is_private_under_any_umask(tmp_path: Path) -> None:
    (tmp_path / "linked.db").symlink_to(tmp_path / "there.db")
    before = os.umask(0)
    try:
        for name in ("a.db", "linked.db"):
            make_database(tmp_path / name)
            _connected(tmp_path / name).close()
    finally:
        os.umask(before)
    for name in ("a.db", "there.db"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_database_that_may_not_be_written_is_refused(database: Path) -> None:
    database.chmod(0o400)
    with pytest.raises(PermissionError):
        make_database(database)


def test_a_database_in_use_keeps_its_locks_and_its_log(database: Path) -> None:
    with closing(_connected(database)) as connection:
        assert locked(os.getpid(), database) == HELD
        make_database(database)
        assert locked(os.getpid(), database) == HELD
        _elsewhere(database, "INSERT INTO t VALUES (2)")
        assert database.with_name("a.db-wal").exists()
        assert connection.execute("SELECT n FROM t ORDER BY n").fetchall() == [(1,), (2,)]


def test_no_thread_uses_a_new_database_before_its_descriptor_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, closing_it, go_on = os.close, threading.Event(), threading.Event()

    def slowly(descriptor: int) -> None:
        closing_it.set()
        assert go_on.wait(60)
        close(descriptor)

    monkeypatch.setattr(os, "close", slowly)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(make_database, tmp_path / "a.db")
        assert closing_it.wait(60)
        second = threads.submit(make_database, tmp_path / "a.db")
        try:
            with pytest.raises(TimeoutError):
                second.result(0.3)
        finally:
            go_on.set()
        first.result(60)
        second.result(60)


def test_what_its_users_do_replaces_no_file(database: Path) -> None:
    with closing(_connected(database)) as connection:
        files = DatabaseFiles(database)
        files.note()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _connected(database).close()  # another connection of this process
        _elsewhere(database, "INSERT INTO t VALUES (2)")
        _elsewhere(database, "INSERT INTO t VALUES (3)", killed=True)
        _elsewhere(database, "VACUUM")
        _elsewhere(database, "PRAGMA wal_checkpoint(TRUNCATE)")
        files.check()


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_was_removed_or_replaced_is_named(
    database: Path, suffix: str, replaced: bool
) -> None:
    with closing(_connected(database)):
        files = DatabaseFiles(database)
        files.note()
        file = database.with_name(f"a.db{suffix}")
        data = file.read_bytes()
        file.rename(file.with_name("old"))
        if replaced:
            file.write_bytes(data)
        with pytest.raises(DataLoss, match=f"{file} was removed or replaced") as caught:
            files.check()
        assert "start the process again" in caught.value.fix


def test_closing_over_replaced_files_changes_none_of_them(database: Path) -> None:
    """SQLite would fold the old log into the database, and delete the new one by its name."""
    program = f"""
import os, pathlib, sqlite3, sys
from sottovoce.core.errors import DataLoss
from sottovoce.core.platform.files import DatabaseFiles

path = pathlib.Path({str(database)!r})
connection = sqlite3.connect(path, isolation_level=None)
connection.execute("PRAGMA journal_mode = WAL")
connection.execute("CREATE TABLE t (n)")
files = DatabaseFiles(path)
files.note()
os.close(os.open(path, os.O_RDWR))  # the fault: the locks are gone
print("ready", flush=True)
sys.stdin.readline()
connection.execute("INSERT INTO t VALUES ('old')")  # into the old log
try:
    files.close(connection)
except DataLoss:
    del connection, files
    sys.exit(8)  # as a command does, which has the interpreter tidy up
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "ready\n"
        _elsewhere(database, "INSERT INTO t VALUES ('folded')")  # closes, and removes the log
        _elsewhere(database, "INSERT INTO t VALUES ('kept')", killed=True)
        before = {each.name: each.read_bytes() for each in database.parent.iterdir()}
        assert before.keys() >= {"a.db", "a.db-wal"}
        user.communicate("go on\n")
        assert user.returncode == 8
    assert {each.name: each.read_bytes() for each in database.parent.iterdir()} == before
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT n FROM t").fetchall() == [("folded",), ("kept",)]
