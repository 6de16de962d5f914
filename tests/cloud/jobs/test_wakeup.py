"""An idle worker hears of every job that is queued, whoever does it."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sottovoce.cloud.jobs import queue as wakeup_module
from sottovoce.cloud.jobs.queue import Wakeup
from sottovoce.cloud.store.opening import open_database
from tests.support.stores import Store
from tests.support.waiting import until

LONG = 3600.0


def announce(state: Path, url: str) -> None:
    database = open_database(state, url)
    with database.write() as transaction:
        transaction.change("UPDATE clock SET awake = awake + 1")
        transaction.announce()
    database.close()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sleeps between looks; none of them is slept."""
    found: list[float] = []
    monkeypatch.setattr(wakeup_module.time, "sleep", found.append)
    return found


def after(looks: list[float], count: int) -> Callable[[], bool]:
    """Ends a wait at a number of looks."""
    return lambda: len(looks) >= count


def test_a_commit_of_another_process_ends_the_wait(tmp_path: Path, store: Store) -> None:
    database = store.open(tmp_path)
    wakeup = Wakeup(database)
    waiting = threading.Thread(target=wakeup.wait, args=(LONG, lambda: False), daemon=True)
    waiting.start()
    other = multiprocessing.get_context("forkserver").Process(
        target=announce, args=(tmp_path, store.url(tmp_path))
    )
    other.start()
    waiting.join(60)
    assert not waiting.is_alive()
    other.join()
    database.close()


def test_a_commit_before_the_wait_is_not_lost_and_counts_once(
    tmp_path: Path, store: Store, looks: list[float]
) -> None:
    database = store.open(tmp_path)
    wakeup, before = Wakeup(database), database.news()
    with database.write() as transaction:  # through this very object
        transaction.change("UPDATE clock SET awake = awake + 1")
        transaction.announce()
    until(lambda: database.news() != before)  # a server sends it on its own time
    looks.clear()
    wakeup.wait(LONG, lambda: False)
    assert looks == []
    wakeup.wait(LONG, after(looks, 7))
    assert len(looks) == 7, "nothing came"
    database.close()


def test_a_wait_ends_with_its_time_or_when_it_need_not_go_on(
    tmp_path: Path, store: Store, looks: list[float]
) -> None:
    database = store.open(tmp_path)
    wakeup = Wakeup(database)
    wakeup.wait(0.0, lambda: False)
    wakeup.wait(LONG, lambda: True)
    assert looks == []
    database.close()
