"""The database: transactions, privacy, clear errors, its lock, and the key of the noise."""

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

from sottovoce.core.errors import ConfigError, DataLoss, NotReady, QuotaExceeded, Unavailable
from sottovoce.edge.state.conversations import Conversations
from sottovoce.edge.state.database import (
    DATABASE,
    VERSION,
    NoiseKeys,
    Store,
    is_held,
    only_one,
)
from sottovoce.edge.state.device_key import KEY
from sottovoce.edge.state.ledger import Ledger, Spending
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


@pytest.mark.parametrize("where", ["tables", "commit", "rename"])
def test_a_first_start_that_was_killed_is_taken_up(tmp_path: Path, where: str) -> None:
    program = f"""
import os, pathlib
from sottovoce.edge.state import database

def die(*_):
    os.kill(os.getpid(), 9)

if {where!r} == "rename":
    pathlib.Path.rename = die
elif {where!r} == "commit":
    database.sign_ledger = die
else:
    database._make = die
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


@pytest.mark.parametrize(
    ("version", "fix"),
    [
        *((older, "ledger starts at 0") for older in (-1, 1, VERSION - 1)),
        *((newer, "update sottovoce-edge") for newer in (VERSION + 1, 99)),
    ],
)
@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_a_database_of_another_version_is_refused_and_stays_as_it_is(
    tmp_path: Path, version: int, fix: str, journal: str
) -> None:
    store = Store.open(tmp_path)
    Ledger(store, 0).charge_once(b"digest", 7)
    store.close()
    _set_version(tmp_path, version, journal)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(
            ConfigError, match=rf"version {version}\b.* version {VERSION}\b"
        ) as caught:
            Store.open(tmp_path)
        assert fix in caught.value.fix
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    _set_version(tmp_path, VERSION, journal)
    store = Store.open(tmp_path)
    assert Ledger(store, 0).spending() == Spending(7.0, 1)
    store.close()


def _set_version(folder: Path, version: int, journal: str) -> None:
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()


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


"""What a command does in a process of its own."""


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_nothing_is_charged_or_read_once_its_files_are_others(tmp_path: Path, suffix: str) -> None:
    lost: list[bool] = []
    store = Store.open(tmp_path, lost=lambda: lost.append(True))
    ledger, keyring = Ledger(store, 0), NoiseKeys(store)
    ledger.charge_once(b"before", 7)
    (tmp_path / f"{DATABASE}{suffix}").rename(tmp_path / "aside")
    assert lost == []
    for act in (
        lambda: ledger.charge_once(b"before", 7),  # which is known to be charged
        lambda: ledger.charge_once(b"digest", 5),
        lambda: ledger.charge_each({b"digest": 5}),
        ledger.spending,
        keyring.current,
        keyring.rotate,
        lambda: ledger.apps.find("sotto-app-token"),
        store.overwrite,
        store.close,
    ):
        with pytest.raises(DataLoss, match=f"{DATABASE}{suffix} was removed or replaced"):
            act()
    with pytest.raises(DataLoss), store.transaction():
        pytest.fail("the transaction began")
    assert lost
    (tmp_path / "aside").rename(tmp_path / f"{DATABASE}{suffix}")
    assert store.rows("SELECT spent, releases FROM ledger") == [(7.0, 1)]
    store.close()


def test_one_holds_it_and_who_looks_takes_it_from_nobody(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert not is_held(state)
    assert not state.exists()
    with only_one(state):
        assert is_held(state)
        with pytest.raises(NotReady), only_one(state):
            pass
        assert is_held(state)
    assert not is_held(state)
    with only_one(state):
        pass


def _shown(keyring: NoiseKeys) -> bytes:
    """What tells one key from another."""
    return keyring.current().name("test")


def test_a_state_has_one_key_for_all_who_open_it(tmp_path: Path) -> None:
    stores = [Store.open(tmp_path / "state") for _ in range(2)]
    one, other = (NoiseKeys(store) for store in stores)
    assert one.epoch == other.epoch == 1
    assert _shown(one) == _shown(other)
    elsewhere = Store.open(tmp_path / "elsewhere")
    assert _shown(NoiseKeys(elsewhere)) != _shown(one)
    for store in (*stores, elsewhere):
        store.close()


def test_a_new_key_is_everyones_at_once_and_the_old_one_is_gone(tmp_path: Path) -> None:
    stores = [Store.open(tmp_path) for _ in range(2)]
    one, other = (NoiseKeys(store) for store in stores)
    before = _shown(one)
    ((sealed,),) = stores[0].rows("SELECT sealed FROM noise_key")
    assert other.rotate() == 2
    assert _shown(one) == _shown(other) != before
    on_disk = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert sealed not in on_disk  # nor in the log, with the database still open
    assert (one.epoch, other.rotate(), one.epoch) == (2, 3, 3)
    for store in stores:
        store.close()


def test_what_surrogates_stand_for_goes_with_the_key(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    kept = Conversations(store, 30)
    held = kept.find("c", [(2, "a")], [])
    held.answers[kept.digest("shown")] = ("what", "came")
    kept.keep(held)
    assert kept.find("c", [(2, "a")], []) == held
    NoiseKeys(store).rotate()
    assert kept.find("c", [(2, "a")], []).answers == {}
    for table in ("conversations", "answers"):
        assert store.rows(f"SELECT * FROM {table}") == []
    store.close()


def test_an_old_key_that_somebody_still_reads_is_said(tmp_path: Path) -> None:
    stores = [Store.open(tmp_path) for _ in range(2)]
    stores[0]._connection.execute("PRAGMA busy_timeout = 10")
    reading = stores[1]._connection
    reading.execute("BEGIN")
    reading.execute("SELECT * FROM noise_key").fetchall()
    with pytest.raises(Unavailable, match="still on disk"):
        NoiseKeys(stores[0]).rotate()
    reading.execute("COMMIT")
    assert NoiseKeys(stores[0]).epoch == 2
    assert NoiseKeys(stores[0]).rotate() == 3
    for store in stores:
        store.close()


def test_a_new_key_keeps_the_ledger_and_forgets_what_was_charged(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    ledger, keyring = Ledger(store, 0), NoiseKeys(store)
    ledger.charge_once(keyring.current().name("text"), 5)
    keyring.rotate()
    assert ledger.spending() == Spending(5, 1)
    assert store.rows("SELECT * FROM charged") == []
    assert not ledger.charged(keyring.current().name("text"))
    store.close()


def test_an_altered_key_is_said(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for change in ("epoch = 2", "sealed = zeroblob(60)"):
        with store.transaction() as transaction:
            transaction.execute(f"UPDATE noise_key SET {change}")
        with pytest.raises(DataLoss, match="altered"):
            NoiseKeys(store).current()
    store.close()


@pytest.mark.parametrize("where", ["UPDATE", "DELETE", "COMMIT"])
def test_a_change_cut_short_never_happened(tmp_path: Path, where: str) -> None:
    store = Store.open(tmp_path)
    before = _shown(NoiseKeys(store))
    Ledger(store, 0).charge_once(b"digest", 5)
    store.close()
    program = f"""
import os, pathlib
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.database import NoiseKeys

store = Store.open(pathlib.Path({str(tmp_path)!r}))
store._connection.set_trace_callback(
    lambda sql: os.kill(os.getpid(), 9) if sql.startswith({where!r}) else None
)
NoiseKeys(store).rotate()
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    store = Store.open(tmp_path)
    assert _shown(NoiseKeys(store)) == before
    assert NoiseKeys(store).epoch == 1
    assert Ledger(store, 0).charged(b"digest")
    store.close()
