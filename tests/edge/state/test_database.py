"""The database: all or nothing, private, and clear about what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError, DataLoss, QuotaExceeded
from sottovoce.edge.state.database import DATABASE, KEY, Store

INSERT = "INSERT INTO releases VALUES (?, ?)"


def test_state_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store.open(tmp_path / "state")
        with store.transaction() as transaction:
            transaction.execute(INSERT, (b"k", b"v"))
        files = {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "state").iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert files.keys() >= {DATABASE, KEY, f"{DATABASE}-wal"}
    assert set(files.values()) == {0o600}


def test_a_failed_transaction_never_happened(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with pytest.raises(RuntimeError), store.transaction() as transaction:  # noqa: PT012
        transaction.execute(INSERT, (b"k", b"v"))
        raise RuntimeError
    assert store.rows("SELECT * FROM releases") == []
    store.close()


def test_a_process_killed_in_a_transaction_leaves_what_was_committed(tmp_path: Path) -> None:
    program = f"""
import os, pathlib
from sottovoce.edge.state.database import Store
store = Store.open(pathlib.Path({str(tmp_path)!r}))
with store.transaction() as transaction:
    transaction.execute({INSERT!r}, (b"kept", b"v"))
with store.transaction() as transaction:
    transaction.execute({INSERT!r}, (b"lost", b"v"))
    os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    store = Store.open(tmp_path)
    assert store.rows("SELECT key FROM releases") == [(b"kept",)]
    store.close()


def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        (pages,) = transaction.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(QuotaExceeded) as caught, store.transaction() as transaction:  # noqa: PT012
        transaction.execute("UPDATE ledger SET spent = 1")
        transaction.execute(INSERT, (b"k", bytes(1 << 20)))
    assert caught.value.subject == "disk"
    assert store.rows("SELECT spent FROM ledger") == [(0.0,)]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    with store.transaction() as transaction:  # and it is usable again
        transaction.execute(INSERT, (b"k", b"v"))
    store.close()


def test_a_corrupt_database_is_said(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataLoss, match="ledger starts at 0"):
        Store.open(tmp_path)


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        (DATABASE, Path.unlink, "gone or empty"),
        (DATABASE, lambda file: os.truncate(file, 0), "gone or empty"),
        (DATABASE, lambda file: file.write_bytes(bytes(4096)), "agent.db"),
        (KEY, Path.unlink, "the key .* is gone"),
        (KEY, lambda file: os.truncate(file, 0), "the key .* is damaged"),
        (KEY, _flip, "is not the one"),
    ],
)
def test_half_a_state_is_never_taken_for_a_new_one(
    tmp_path: Path, name: str, damage: Callable[[Path], None], said: str
) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        transaction.execute("UPDATE ledger SET spent = 7")
    store.close()
    sound = (tmp_path / name).read_bytes()
    damage(tmp_path / name)
    for _ in range(2):  # and to be refused makes it no better
        with pytest.raises(DataLoss, match=said) as caught:
            Store.open(tmp_path)
        assert "move" in caught.value.fix
        assert "ledger starts at 0" in caught.value.fix
    (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / name).touch(mode=0o600)
    (tmp_path / name).write_bytes(sound)
    store = Store.open(tmp_path)
    assert store.rows("SELECT spent FROM ledger") == [(7.0,)]
    store.close()


def test_a_ledger_without_its_row_is_said(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        transaction.execute("DELETE FROM ledger")
    store.close()
    with pytest.raises(DataLoss, match="damaged"):
        Store.open(tmp_path)


@pytest.mark.parametrize("where", ["_FIRST", "rename"])
def test_a_first_start_that_was_killed_is_taken_up(tmp_path: Path, where: str) -> None:
    program = f"""
import os, pathlib
from sottovoce.edge.state import database

class Dying(str):
    def split(self, *_):
        os.kill(os.getpid(), 9)

if {where!r} == "rename":
    pathlib.Path.rename = lambda *_: os.kill(os.getpid(), 9)
else:
    database._FIRST = Dying()
database.Store.open(pathlib.Path({str(tmp_path)!r}))
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    assert (tmp_path / ".agent.key.new").exists()
    assert not (tmp_path / KEY).exists()
    stores = [Store.open(tmp_path) for _ in range(2)]
    assert stores[0].seal.mark == stores[1].seal.mark
    assert stores[0].rows("SELECT spent FROM ledger") == [(0.0,)]
    assert not (tmp_path / ".agent.key.new").exists()
    for store in stores:
        store.close()


def test_many_may_be_the_first(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        stores = [*pool.map(Store.open, [tmp_path] * 8)]
    assert len({store.seal.mark for store in stores}) == 1
    for store in stores:
        store.close()
    assert {path.name for path in tmp_path.iterdir()} == {DATABASE, KEY}


def _as_of_version(folder: Path, version: int) -> None:
    """Takes back what later versions added."""
    with sqlite3.connect(folder / DATABASE) as connection:
        if version < 2:
            connection.execute("DROP TABLE seal")
        connection.execute("DROP TABLE labelled")
        connection.execute("ALTER TABLE customizations DROP COLUMN labels")
        for column in ("label_epsilon", "labels_randomized", "labels_as_they_are"):
            connection.execute(f"ALTER TABLE ledger DROP COLUMN {column}")
        connection.execute("DROP TABLE staged")
        connection.execute(
            "CREATE TABLE staged (customization TEXT NOT NULL, sequence INTEGER NOT NULL,"
            " key BLOB NOT NULL, release BLOB NOT NULL, charge REAL NOT NULL,"
            " labelled BLOB NOT NULL, sealed BLOB NOT NULL,"
            " PRIMARY KEY (customization, sequence)) WITHOUT ROWID"
        )
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_a_state_of_the_second_version_keeps_its_ledger_and_is_brought_up(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        transaction.execute("UPDATE ledger SET spent = 7, releases = 3")
        sealed = store.seal.seal(b"v", b"customizationk")
        row = (1, "k", b"r", 0, sealed, b"", None)
        transaction.execute("INSERT INTO customizations VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    store.close()
    fresh = _tables(tmp_path)
    _as_of_version(tmp_path, 2)
    assert _tables(tmp_path) != fresh
    store = Store.open(tmp_path)
    assert store.rows("SELECT * FROM ledger") == [(1, 7.0, 3, 0.0, 0, 0)]
    assert store.rows("SELECT id, labels FROM customizations") == [("k", None)]
    store.close()
    assert _tables(tmp_path) == fresh


def _tables(folder: Path) -> dict[str, list[str]]:
    """The columns of every table."""
    with sqlite3.connect(folder / DATABASE) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        tables = {
            name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
            for (name,) in names.fetchall()
        }
    connection.close()
    return tables


@pytest.mark.parametrize("table", ["releases", "customizations", None])
def test_a_state_of_the_first_version_is_held_to_its_key(tmp_path: Path, table: str | None) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        transaction.execute("UPDATE ledger SET spent = 7")
        if table == "releases":
            transaction.execute(INSERT, (b"k", store.seal.seal(b"v", b"releasek")))
        elif table == "customizations":
            sealed = store.seal.seal(b"v", b"customizationk")
            row = (1, "k", b"r", 0, sealed, b"", None)
            transaction.execute("INSERT INTO customizations VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    store.close()
    _as_of_version(tmp_path, 1)
    key = (tmp_path / KEY).read_bytes()
    if table is not None:
        _flip(tmp_path / KEY)
        with pytest.raises(DataLoss, match="another key"):
            Store.open(tmp_path)
        (tmp_path / KEY).write_bytes(key)
    store = Store.open(tmp_path)
    assert store.rows("SELECT spent FROM ledger") == [(7.0,)]
    store.close()
    _flip(tmp_path / KEY)
    with pytest.raises(DataLoss, match="is not the one"):
        Store.open(tmp_path)


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="newer agent"):
        Store.open(tmp_path)


def test_threads_and_processes_share_it(tmp_path: Path) -> None:
    stores = [Store.open(tmp_path) for _ in range(2)]

    def spend(store: Store) -> None:
        for _ in range(50):
            with store.transaction() as transaction:
                (spent,) = transaction.execute("SELECT spent FROM ledger").fetchone()
                transaction.execute("UPDATE ledger SET spent = ?", (spent + 1,))

    threads = [threading.Thread(target=spend, args=(stores[n % 2],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stores[0].rows("SELECT spent FROM ledger") == [(200.0,)]
    for store in stores:
        store.close()
