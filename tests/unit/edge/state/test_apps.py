"""Apps are known by unstored tokens, bounded by the day and the minute, and removed at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import (
    DataLoss,
    InvalidInput,
    NotFound,
    Overloaded,
    QuotaExceeded,
    Unauthenticated,
)
from sottovoce.edge.state.apps import MOST_APPS, App, Apps, Callers, calling, inside
from sottovoce.edge.state.database import DATABASE, Store
from sottovoce.edge.state.ledger import Ledger

DAY = 86_400


class Clock:
    """Days since 1970, to be set."""

    day = 20_000.5

    def __call__(self) -> float:
        return self.day * DAY


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store.open(tmp_path)) as opened:
        yield opened


def _spend(ledger: Ledger, app: App | None, what: bytes, amount: float) -> None:
    inside(app).run(ledger.charge_once, what, amount)


def test_an_app_is_known_by_its_token_alone(store: Store, tmp_path: Path) -> None:
    apps = Apps(store)
    mail, lamp = apps.new("mail", 60, 2.5), apps.new("lamp")
    assert mail != lamp
    found = apps.find(mail)
    assert found is not None
    assert (found.name, found.calls_a_minute, found.a_day) == ("mail", 60, 2.5)
    for other in ("", "mail", mail[:-1], mail + "x", "sotto-app-", "sotto-app-" + "x" * 43):
        assert apps.find(other) is None
    assert [app.name for app, _ in apps.all()] == ["lamp", "mail"]
    store.overwrite()
    held = (tmp_path / DATABASE).read_bytes()
    for secret in (mail, lamp, mail.removeprefix("sotto-app-"), "lamp"):
        assert secret.encode() not in held  # nor the name, which is the owner's


def test_one_that_was_removed_is_nobodys(store: Store) -> None:
    apps = Apps(store)
    token = apps.new("mail")
    app = apps.find(token)
    assert app is not None
    assert apps.has(app)
    apps.remove("mail")
    assert not apps.has(app)
    assert apps.find(token) is None
    with pytest.raises(NotFound):
        apps.remove("mail")
    with pytest.raises(Unauthenticated):
        _spend(Ledger(store, 0), app, b"1", 1)
    assert Ledger(store, 0).spending().releases == 0
    again = apps.new("mail")
    assert apps.find(token) is None
    assert apps.find(again) is not None


@pytest.mark.parametrize(
    ("name", "calls", "a_day"),
    [
        ("", 0, 0),
        ("a b", 0, 0),
        ("-x", 0, 0),
        ("x" * 65, 0, 0),
        ("a\x1b[2J", 0, 0),
        ("a", -1, 0),
        ("a", 1 << 40, 0),
        ("a", 0, -1.0),
        ("a", 0, float("nan")),
        ("a", 0, float("inf")),
        ("taken", 0, 0),
    ],
)
def test_what_cannot_be_is_refused(store: Store, name: str, calls: int, a_day: float) -> None:
    apps = Apps(store)
    apps.new("taken")
    with pytest.raises(InvalidInput) as caught:
        apps.new(name, calls, a_day)
    assert caught.value.fix
    assert len(apps.all()) == 1


def test_there_are_so_many_at_most(store: Store) -> None:
    apps = Apps(store)
    for number in range(MOST_APPS):
        apps.new(f"app{number}")
    with pytest.raises(QuotaExceeded, match=str(MOST_APPS)):
        apps.new("one-more")
    apps.remove("app7")
    apps.new("one-more")


def test_an_app_spends_no_more_in_a_day_and_begins_anew_the_next(store: Store) -> None:
    clock = Clock()
    ledger = Ledger(store, 0)
    apps = ledger.apps = Apps(store, clock)
    app = apps.find(apps.new("mail", a_day=10))
    _spend(ledger, app, b"1", 6)
    _spend(ledger, app, b"1", 6)  # once
    with pytest.raises(QuotaExceeded, match="6 of the 10") as caught:
        _spend(ledger, app, b"2", 5)
    assert caught.value.subject == "app"
    assert ledger.spending().spent == 6
    assert not ledger.charged(b"2")  # as if it had not been asked for
    _spend(ledger, app, b"3", 4)
    assert apps.all() == [(app, 10.0)]
    _spend(ledger, None, b"4", 100)  # the owner's is not the app's
    clock.day += 1
    assert apps.all() == [(app, 0.0)]
    _spend(ledger, app, b"2", 5)
    clock.day -= 1  # a clock that goes back gives no day again
    with pytest.raises(QuotaExceeded):
        _spend(ledger, app, b"5", 6)
    assert apps.all() == [(app, 5.0)]


def test_what_was_spent_is_known_after_a_crash(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    token = Apps(store).new("mail", a_day=10)
    _spend(Ledger(store, 0), Apps(store).find(token), b"1", 10)
    # Not closed: as a killed process leaves it.
    with closing(Store.open(tmp_path)) as after, pytest.raises(QuotaExceeded):
        _spend(Ledger(after, 0), Apps(after).find(token), b"2", 1)
    store.close()


def test_an_app_is_not_told_what_the_owner_has_spent(store: Store) -> None:
    ledger = Ledger(store, 10)
    app = ledger.apps.find(ledger.apps.new("mail"))
    _spend(ledger, None, b"1", 7.25)
    for who, told in ((None, True), (app, False)):
        with pytest.raises(QuotaExceeded) as caught:
            _spend(ledger, who, b"2", 5)
        assert ("7.25" in str(caught.value)) is told


def test_limits_that_were_altered_are_not_believed(store: Store, tmp_path: Path) -> None:
    apps = Apps(store)
    apps.new("mail", a_day=10)
    apps.new("lamp")
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        rows = connection.execute("SELECT key, sealed FROM apps").fetchall()
        for (key, _), (_, other) in zip(rows, reversed(rows), strict=True):
            connection.execute("UPDATE apps SET sealed = ? WHERE key = ?", (other, key))
    with pytest.raises(DataLoss):
        apps.all()


def test_who_calls_is_known_inside_alone() -> None:
    app = App(b"k", "mail")
    assert inside(app).run(calling) is app
    assert calling() is None
    assert inside(app).run(lambda: inside(None).run(calling)) is None


def test_a_damaged_one_concerns_no_other(store: Store, tmp_path: Path) -> None:
    apps = Apps(store)
    mail, lamp = apps.new("mail"), apps.new("lamp")
    found = apps.find(mail)
    assert found is not None
    with closing(sqlite3.connect(tmp_path / DATABASE)) as connection, connection:
        connection.execute("UPDATE apps SET sealed = X'00' WHERE key = ?", (found.key,))
    assert getattr(apps.find(lamp), "name", "") == "lamp"
    assert apps.find("sotto-app-" + "x" * 43) is None
    with pytest.raises(DataLoss):
        apps.find(mail)


class Seconds:
    """Seconds, to be set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def apps(tmp_path: Path) -> Iterator[Apps]:
    with closing(Store.open(tmp_path)) as store:
        yield Apps(store)


def _admitted(callers: Callers, app: App | None, tries: int) -> int:
    admitted = 0
    for _ in range(tries):
        try:
            callers.admit(app)
        except Overloaded:
            continue
        admitted += 1
    return admitted


def test_so_many_calls_a_minute_and_no_more(apps: Apps) -> None:
    clock = Seconds()
    callers = Callers(apps, clock)
    app, other = (callers.find(apps.new(name, calls)) for name, calls in (("a", 6), ("b", 1)))
    assert _admitted(callers, app, 20) == 6
    assert _admitted(callers, other, 2) == 1  # each its own
    clock.now += 9.9
    assert _admitted(callers, app, 20) == 0
    clock.now += 0.2
    assert _admitted(callers, app, 20) == 1
    clock.now += 3600
    assert _admitted(callers, app, 20) == 6  # what was not used is not saved up


def test_no_limit_is_none_and_the_owner_has_none(apps: Apps) -> None:
    callers = Callers(apps)
    assert _admitted(callers, callers.find(apps.new("a")), 500) == 500
    assert _admitted(callers, None, 500) == 500


def test_one_that_was_removed_is_refused(apps: Apps) -> None:
    callers = Callers(apps)
    app = callers.find(apps.new("a"))
    callers.check(app)
    callers.check(None)
    apps.remove("a")
    for refused in (callers.check, callers.admit):
        with pytest.raises(Unauthenticated):
            refused(app)


def test_apps_that_come_and_go_leave_nothing(apps: Apps) -> None:
    callers = Callers(apps)
    for _ in range(2 * MOST_APPS):
        callers.admit(callers.find(apps.new("a", 1)))
        apps.remove("a")
    assert len(callers._left) == MOST_APPS
