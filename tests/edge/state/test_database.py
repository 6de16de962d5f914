"""The database: all or nothing, private, and clear about what is wrong with it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
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


def test_a_database_without_its_key_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path).close()
    (tmp_path / KEY).unlink()
    with pytest.raises(DataLoss, match="the key"):
        Store.open(tmp_path)
    assert not (tmp_path / KEY).exists()


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
