"""The ledger adds up, refuses past the limit, and survives."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import fields
from functools import partial
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss, QuotaExceeded
from sottovoce.edge.state import ledger as ledgers
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


@pytest.mark.parametrize("column", [field.name for field in fields(Spending)])
def test_a_figure_that_was_altered_is_noticed(tmp_path: Path, column: str) -> None:
    store = Store.open(tmp_path)
    ledger = Ledger(store, 0)
    _charge(store, ledger, 10.5)
    with store.transaction() as transaction:
        transaction.execute(f"UPDATE ledger SET {column} = {column} + 1")
    with pytest.raises(DataLoss, match=r"ledger .* was altered") as caught:
        ledger.spending()
    assert "ledger starts at 0" in caught.value.fix
    for charge in (
        lambda: _charge(store, ledger, 4.0),
        lambda: ledger.charge_each({b"a": 4.0}),
        lambda: ledger.charge_once(b"b", 4.0),
    ):
        with pytest.raises(DataLoss, match=r"ledger .* was altered"):
            charge()
    with store.transaction() as transaction:
        for made in (
            partial(ledger.charge_labels, transaction, [b"k"], 1.0),
            partial(ledger.charge_adapter, transaction, 1.0, 1e-6),
        ):
            with pytest.raises(DataLoss, match=r"ledger .* was altered"):
                made()
    store.close()
    with pytest.raises(DataLoss, match=r"ledger .* was altered"):
        Store.open(tmp_path)


def test_a_row_that_is_gone_is_noticed(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    ledger = Ledger(store, 0)
    with store.transaction() as transaction:
        transaction.execute("DELETE FROM ledger")
    for use in (ledger.spending, lambda: ledger.charge_once(b"a", 4.0)):
        with pytest.raises(DataLoss, match=r"ledger .* was altered"):
            use()
    store.close()
    with pytest.raises(DataLoss):
        Store.open(tmp_path)


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
        transaction.execute("INSERT INTO outbox VALUES ('c', x'', 0, x'', x'', x'', 0, x'')")
        Ledger(store, 1).charge(transaction, 2, 1)
    assert store.rows("SELECT * FROM outbox") == []
    store.close()


def test_several_are_charged_together_or_none(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    ledger = Ledger(store, 10)
    assert ledger.charge_each({b"a": 4.0, b"b": 0.0}) == (4.0, 2)
    assert ledger.charge_each({b"a": 4.0, b"b": 0.0}) == (0.0, 0)
    with pytest.raises(QuotaExceeded, match="ledger_limit"):
        ledger.charge_each({b"a": 4.0, b"c": 3.0, b"d": 4.0})
    assert not ledger.charged(b"c")
    assert ledger.charge_each({b"a": 4.0, b"c": 3.0}) == (3.0, 1)
    assert ledger.spending() == Spending(7, 3)
    store.close()


def test_what_has_one_digest_is_charged_once(tmp_path: Path) -> None:
    store, other = Store.open(tmp_path), Store.open(tmp_path)
    ledger = Ledger(store, 10)
    ledger.charge_once(b"a", 6)
    Ledger(other, 10).charge_once(b"a", 6)
    ledger.charge_once(b"b", 3)
    assert ledger.spending() == Spending(9, 2)
    with pytest.raises(QuotaExceeded, match="ledger_limit"):
        ledger.charge_once(b"c", 2)
    assert not ledger.charged(b"c")  # and so it will be asked for again
    assert ledger.charged(b"a")
    assert ledger.spending() == Spending(9, 2)
    ledger.charge_once(b"a", 6)  # at the limit, what was released stays free
    for each in (store, other):
        each.close()


def test_what_is_forgotten_is_charged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledgers, "MOST_CHARGED", 3)
    store = Store.open(tmp_path)
    ledger = Ledger(store, 0)
    for digest in (b"a", b"b", b"c", b"a"):
        ledger.charge_once(digest, 1)
    assert ledger.spending() == Spending(3, 3)
    ledger.charge_once(b"d", 1)  # in the place of the oldest
    assert not ledger.charged(b"a")
    assert all(map(ledger.charged, (b"b", b"c", b"d")))
    for digest in (b"b", b"a", b"a"):
        ledger.charge_once(digest, 1)
    assert ledger.spending() == Spending(5, 5)
    assert store.rows("SELECT COUNT(*) FROM charged") == [(3,)]
    store.close()


def test_a_label_costs_the_largest_epsilon_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path)
    ledger = Ledger(store, 0)

    def charge(examples: list[bytes], epsilon: float) -> Spending:
        with store.transaction() as transaction:
            ledger.charge_labels(transaction, examples, epsilon)
        return ledger.spending()

    assert charge([b"a", b"b"], 1.0) == Spending(0, 0, 2.0, 2, 0)
    assert charge([b"a", b"a", b"b", b"c"], 3.0) == Spending(0, 0, 9.0, 3, 0)
    assert charge([b"a", b"b"], 0.5) == Spending(0, 0, 9.0, 3, 0)
    for _ in range(2):
        assert charge([b"a", b"d"], math.inf) == Spending(0, 0, 9.0, 3, 2)
    monkeypatch.setattr(ledgers, "MOST_LABELLED", 2)
    charge([b"e"], 1.0)  # forgets all but two
    assert charge([b"b", b"e"], 1.0) == Spending(0, 0, 11.0, 5, 2)
    store.close()


def test_each_private_adapter_is_charged_in_full(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    ledger = Ledger(store, 0)
    for _ in range(2):
        with store.transaction() as transaction:
            ledger.charge_adapter(transaction, 2.0, 0.25)
    spent = Spending(0, 0, adapters_private=2, adapter_epsilon=4.0, adapter_delta=0.5)
    assert ledger.spending() == spent
    store.close()


@pytest.mark.parametrize("where", ["charge", "COMMIT", "given out"])
def test_killed_on_its_way_a_release_is_charged_once(tmp_path: Path, where: str) -> None:
    """Killed before the charge is on disk nothing is charged, after it once, however often the
    same is asked for again."""
    program = f"""
import os, pathlib
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.ledger import Ledger

store = Store.open(pathlib.Path({str(tmp_path)!r}))
die = lambda *_: os.kill(os.getpid(), 9)
ledger = Ledger(store, 0)
if {where!r} == "charge":
    ledger.charge = die
elif {where!r} == "COMMIT":
    store._connection.set_trace_callback(lambda sql: die() if sql == "COMMIT" else None)
ledger.charge_once(b"digest", 5)
die()
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    store = Store.open(tmp_path)
    ledger = Ledger(store, 0)
    charged = where == "given out"
    assert ledger.spending() == Spending(5 * charged, charged)
    assert ledger.charged(b"digest") == charged
    for _ in range(2):
        ledger.charge_once(b"digest", 5)
        assert ledger.spending() == Spending(5, 1)
    store.close()
