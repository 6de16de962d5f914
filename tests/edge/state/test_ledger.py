"""The ledger adds up, refuses past the limit, and survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import QuotaExceeded
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.ledger import Ledger, Spending


def _charge(store: Store, ledger: Ledger, amount: float) -> None:
    with store.transaction() as transaction:
        ledger.charge(transaction, amount, 1)


def test_charges_add_up_and_survive(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    _charge(store, Ledger(store, 0), 10.5)
    _charge(store, Ledger(store, 0), 4.0)
    store.close()
    store = Store.open(tmp_path)
    assert Ledger(store, 0).spending() == Spending(14.5, 2)
    store.close()


def test_the_limit_may_be_reached_but_not_passed(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    ledger = Ledger(store, 10)
    _charge(store, ledger, 6)
    _charge(store, ledger, 4)
    with pytest.raises(QuotaExceeded, match="ledger_limit") as caught:
        _charge(store, ledger, 0.5)
    assert caught.value.subject == "ledger"
    assert ledger.spending() == Spending(10, 2)
    store.close()


def test_a_refused_charge_takes_the_rest_of_its_transaction_along(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    with pytest.raises(QuotaExceeded), store.transaction() as transaction:  # noqa: PT012
        transaction.execute("INSERT INTO releases VALUES (?, ?)", (b"k", b"v"))
        Ledger(store, 1).charge(transaction, 2, 1)
    assert store.rows("SELECT * FROM releases") == []
    store.close()
