"""A database that is in use keeps its locks, and its user notices when its files are others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.ledger import Ledger
from sottovoce.edge.state.noise_keys import NoiseKeys
from tests.support.locks import locked

ELSEWHERE = """
import pathlib, sys
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.ledger import Ledger
store = Store.open(pathlib.Path(sys.argv[1]))
Ledger(store, 0).charge_once(b"elsewhere", 7)
store.close()
"""
"""What a command does in a process of its own."""


def test_to_open_it_twice_takes_no_locks_away(tmp_path: Path) -> None:
    """POSIX drops a process's locks on a file when the process closes any descriptor of it."""
    store = Store.open(tmp_path)
    Store.open(tmp_path).close()
    assert locked(os.getpid(), tmp_path / DATABASE) == {"", "-shm"}
    subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path], check=True)
    assert (tmp_path / f"{DATABASE}-wal").exists()  # its user here is still known
    Ledger(store, 0).charge_once(b"here", 5)
    subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path], check=True)
    assert store.rows("SELECT spent FROM ledger") == [(12.0,)]
    store.close()


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
