"""The database: all or nothing, private, and clear about what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from sottovoce.core.errors import ConfigError, DataLoss, QuotaExceeded
from sottovoce.edge.state.database import DATABASE, KEY, Store
from sottovoce.edge.state.ledger import Ledger, Spending
from sottovoce.edge.state.noise_keys import NoiseKeys
from tests.support.full_disk import in_memory, no_mounts

INSERT = "INSERT INTO outbox VALUES (?, x'', 0, x'', ?, x'', 0, x'')"


def test_state_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store.open(tmp_path / "state")
        with store.transaction() as transaction:
            transaction.execute(INSERT, ("k", b"v"))
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
        transaction.execute(INSERT, ("k", b"v"))
        raise RuntimeError
    assert store.rows("SELECT * FROM outbox") == []
    store.close()


def test_a_process_killed_in_a_transaction_leaves_what_was_committed(tmp_path: Path) -> None:
    program = f"""
import os, pathlib
from sottovoce.edge.state.database import Store
store = Store.open(pathlib.Path({str(tmp_path)!r}))
with store.transaction() as transaction:
    transaction.execute({INSERT!r}, ("kept", b"v"))
with store.transaction() as transaction:
    transaction.execute({INSERT!r}, ("lost", b"v"))
    os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    store = Store.open(tmp_path)
    assert store.rows("SELECT customization FROM outbox") == [("kept",)]
    store.close()


def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        (pages,) = transaction.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(QuotaExceeded) as caught, store.transaction() as transaction:  # noqa: PT012
        transaction.execute("UPDATE ledger SET spent = 1")
        transaction.execute(INSERT, ("k", bytes(1 << 20)))
    assert caught.value.subject == "disk"
    assert store.rows("SELECT spent FROM ledger") == [(0.0,)]
    store._connection.execute("PRAGMA max_page_count = 1000000")
    with store.transaction() as transaction:  # and it is usable again
        transaction.execute(INSERT, ("k", b"v"))
    store.close()


def test_a_disk_that_is_full_at_the_start_is_not_taken_for_damage(tmp_path: Path) -> None:
    """SQLite then has no room for the index of its log, and calls that a failure of the disk."""
    if lacking := no_mounts():
        pytest.skip(lacking)
    with in_memory(tmp_path / "disk", 4) as disk:
        Store.open(disk.folder).close()
        disk.fill()
        with pytest.raises(QuotaExceeded, match="disk") as caught:
            Store.open(disk.folder)
        assert "free some space" in caught.value.fix
        disk.free()
        Store.open(disk.folder).close()


def test_a_corrupt_database_is_said(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / DATABASE).write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataLoss, match="ledger starts at 0"):
        Store.open(tmp_path)


def test_a_schema_that_is_no_text_any_more_is_damage(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    file = tmp_path / DATABASE
    data = file.read_bytes()
    assert b"NOT NULL" in data
    file.write_bytes(data.replace(b"NOT NULL", b"NU\xccL NULL"[:8]))
    with pytest.raises(DataLoss, match="damaged"):
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
    Ledger(store, 0).charge_once(b"digest", 7)
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


@pytest.mark.parametrize("table", ["ledger", "noise_key", "seal"])
def test_a_table_without_its_row_is_said(tmp_path: Path, table: str) -> None:
    store = Store.open(tmp_path)
    with store.transaction() as transaction:
        transaction.execute(f"DELETE FROM {table}")
    store.close()
    with pytest.raises(DataLoss, match="damaged"):
        Store.open(tmp_path)


@pytest.mark.parametrize("where", ["FIRST", "rename"])
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
    database.schema.FIRST = Dying()
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
    staged = "example BLOB" if version == 3 else "sequence INTEGER"
    with sqlite3.connect(folder / DATABASE) as connection:
        _with_staging(connection)
        if version < 10:
            connection.execute("DROP TABLE apps")
        if version < 9:
            connection.execute("DROP TABLE corrections")
        if version < 8:
            connection.execute("DROP TABLE accounts")
        if version < 7:
            connection.execute("ALTER TABLE ledger DROP COLUMN mac")
        if version < 6:
            connection.execute("DROP TABLE conversations")
            connection.execute("DROP TABLE answers")
        if version < 5:
            for column in ("adapters_private", "adapter_epsilon", "adapter_delta"):
                connection.execute(f"ALTER TABLE ledger DROP COLUMN {column}")
        if version < 2:
            connection.execute("DROP TABLE seal")
        if version < 3:
            connection.execute("DROP TABLE labelled")
            connection.execute("ALTER TABLE customizations DROP COLUMN labels")
            for column in ("label_epsilon", "labels_randomized", "labels_as_they_are"):
                connection.execute(f"ALTER TABLE ledger DROP COLUMN {column}")
        if version < 4:
            _as_before_keys(connection, staged)
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def _with_staging(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE outbox")
    connection.execute(
        "CREATE TABLE outbox (customization TEXT NOT NULL, sequence INTEGER NOT NULL,"
        " sealed BLOB NOT NULL, PRIMARY KEY (customization, sequence)) WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE staged (customization TEXT NOT NULL, example BLOB NOT NULL,"
        " digest BLOB NOT NULL, charge REAL NOT NULL, labelled BLOB NOT NULL,"
        " sealed BLOB NOT NULL, PRIMARY KEY (customization, example)) WITHOUT ROWID"
    )


def _as_before_keys(connection: sqlite3.Connection, staged: str) -> None:
    connection.execute("DROP TABLE noise_key")
    connection.execute("DROP TABLE charged")
    connection.execute("DROP TABLE staged")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS releases (key BLOB PRIMARY KEY, sealed BLOB NOT NULL)"
        " WITHOUT ROWID"
    )
    connection.execute(
        f"CREATE TABLE staged (customization TEXT NOT NULL, {staged} NOT NULL,"
        " key BLOB NOT NULL, release BLOB NOT NULL, charge REAL NOT NULL,"
        " labelled BLOB NOT NULL, sealed BLOB NOT NULL,"
        f" PRIMARY KEY (customization, {staged.split()[0]})) WITHOUT ROWID"
    )


def _older(folder: Path, version: int, table: str | None = None) -> dict[str, list[str]]:
    """Leaves a state of that version, something sealed in ``table``; gives this one's tables."""
    store = Store.open(folder)
    seal = store.seal
    with store.transaction() as transaction:
        Ledger(store, 0).charge(transaction, 7, 3)
        transaction.execute(INSERT, ("c", b"v"))
        if table == "customizations":
            row = (1, "k", b"r", 0, seal.seal(b"v", b"customizationk"), b"", None)
            transaction.execute("INSERT INTO customizations VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    store.close()
    fresh = _tables(folder)
    _as_of_version(folder, version)
    assert _tables(folder) != fresh
    if table == "releases":
        with sqlite3.connect(folder / DATABASE) as connection:
            row = (b"k", seal.seal(b"v", b"releasek"))
            connection.execute("INSERT INTO releases VALUES (?, ?)", row)
        connection.close()
    return fresh


@pytest.mark.parametrize(
    ("version", "table"),
    [
        *product([1, 2, 3], ["releases", "customizations", None]),
        *product([5, 6, 7, 8, 9, 10], ["customizations", None]),
    ],
)
def test_an_older_state_is_held_to_its_key_keeps_its_ledger_and_is_brought_up(
    tmp_path: Path, version: int, table: str | None
) -> None:
    fresh = _older(tmp_path, version, table)
    if version > 1 or table is not None:  # nothing else in version 1 could tell whose the key is
        _flip(tmp_path / KEY)
        for _ in range(2):
            with pytest.raises(DataLoss, match=r"another key|is not the one"):
                Store.open(tmp_path)
        _flip(tmp_path / KEY)
    store = Store.open(tmp_path)
    assert Ledger(store, 0).spending() == Spending(7.0, 3)
    kept = [("k", None)] if table == "customizations" else []
    assert store.rows("SELECT id, labels FROM customizations") == kept
    key = NoiseKeys(store).current()
    store.close()
    assert _tables(tmp_path) == fresh
    store = Store.open(tmp_path)
    assert NoiseKeys(store).current().name("x") == key.name("x")
    store.close()
    _flip(tmp_path / KEY)
    with pytest.raises(DataLoss, match="is not the one"):
        Store.open(tmp_path)


def test_an_older_state_killed_on_its_way_is_still_the_older_one(tmp_path: Path) -> None:
    _older(tmp_path, 2)
    before = _tables(tmp_path)
    program = f"""
import os, pathlib
from sottovoce.edge.state import database

database.Seal.new_secret = lambda *_: os.kill(os.getpid(), 9)
database.Store.open(pathlib.Path({str(tmp_path)!r}))
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    assert _tables(tmp_path) == before
    store = Store.open(tmp_path)
    assert store.rows("SELECT spent FROM ledger") == [(7.0,)]
    assert NoiseKeys(store).epoch == 1
    store.close()


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
