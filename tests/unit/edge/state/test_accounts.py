"""Charges by day and purpose add up, are bounded and sealed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import QuotaExceeded
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.ledger import (
    DAY_SECONDS,
    DAYS,
    LONGEST_NAME,
    MOST_NAMES,
    Accounts,
    Ledger,
    Purpose,
)

MAIL, CHAT = Purpose("predict", "secretproject\nof two lines"), Purpose("chat")


class Clock:
    """Days since 1970, to be set."""

    day = 20_000.5

    def __call__(self) -> float:
        return self.day * DAY_SECONDS


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path)) as opened:
        yield opened


def test_every_charge_is_on_one_account(store: Store) -> None:
    ledger = Ledger(store, 100)
    ledger.charge_once(b"1", 10, MAIL)
    ledger.charge_once(b"1", 10, MAIL)  # once
    ledger.charge_each({b"2": 5, b"3": 6}, CHAT)
    ledger.charge_once(b"4", 2)
    with pytest.raises(QuotaExceeded):
        ledger.charge_once(b"5", 1000, MAIL)
    found = ledger.accounts.since(0)
    assert {(each.purpose, each.spent, each.releases) for each in found} == {
        (MAIL, 10, 1),
        (CHAT, 11, 2),
        (Purpose("app"), 2, 1),
    }
    assert sum(each.spent for each in found) == ledger.spending().spent
    assert sum(each.releases for each in found) == ledger.spending().releases


def test_days_are_told_apart_and_old_ones_forgotten(store: Store) -> None:
    clock = Clock()
    accounts = Accounts(store, clock)

    def add() -> None:
        with store.transaction() as transaction:
            accounts.add(transaction, MAIL, 1, 1)

    first = accounts.today
    add()
    clock.day += DAYS - 1
    add()
    assert [each.day for each in accounts.since(0)] == [first + DAYS - 1, first]
    assert [each.day for each in accounts.since(first + 1)] == [first + DAYS - 1]
    clock.day += 1
    add()
    assert [each.day for each in accounts.since(0)] == [first + DAYS, first + DAYS - 1]


def test_names_are_few_short_and_sealed(store: Store, tmp_path: Path) -> None:
    accounts = Accounts(store)
    with store.transaction() as transaction:
        accounts.add(transaction, MAIL, 1, 1)
        for number in range(MOST_NAMES + 50):
            accounts.add(transaction, Purpose("predict", f"{number}" + 1000 * "x"), 1, 1)
    found = accounts.since(0)
    assert len(found) == MOST_NAMES + 1
    assert max(len(each.purpose.name) for each in found) == LONGEST_NAME
    (others,) = (each for each in found if not each.purpose.name)
    assert others.releases == 51
    store.overwrite()
    assert b"secretproject" not in (tmp_path / DATABASE).read_bytes()


def test_a_name_is_forgotten_and_its_sums_are_kept(store: Store) -> None:
    clock = Clock()
    accounts = Accounts(store, clock)
    long = Purpose("customize", "x" * (LONGEST_NAME + 1))
    for purpose in (MAIL, Purpose("chat", MAIL.name), Purpose("predict"), long, CHAT):
        with store.transaction() as transaction:
            accounts.add(transaction, purpose, 2, 1)
    clock.day += 1
    with store.transaction() as transaction:
        accounts.add(transaction, MAIL, 3, 1)
    first = accounts.today - 1
    accounts.forget(MAIL.name)
    accounts.forget(long.name)
    assert {(each.day - first, *each.purpose, each.spent) for each in accounts.since(0)} == {
        (0, "predict", "", 4),
        (0, "chat", "", 4),
        (0, "customize", "", 2),
        (1, "predict", "", 3),
    }
