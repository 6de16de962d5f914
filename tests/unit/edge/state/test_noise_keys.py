"""The key of the noise: there from the first start, sealed, and changed by one transaction."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss, Unavailable
from sottovoce.edge.state.conversations import Conversations
from sottovoce.edge.state.database import NoiseKeys, Store
from sottovoce.edge.state.ledger import Ledger, Spending


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
