"""How often an app may ask, and that one which was removed may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sottovoce.core.errors import Overloaded, Unauthenticated
from sottovoce.edge.state.apps import MOST_APPS, App, Apps, Callers
from sottovoce.edge.state.database import Store


class Clock:
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
    clock = Clock()
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
