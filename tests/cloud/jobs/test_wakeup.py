"""A ring wakes who waits, whatever process it comes from, and harms nobody if no one does."""

from __future__ import annotations

import multiprocessing
import threading
import time
from pathlib import Path

from sottovoce.cloud.jobs.wakeup import Wakeup

LONG = 60.0


def test_a_ring_of_another_process_ends_the_wait(tmp_path: Path) -> None:
    with Wakeup(tmp_path).heard() as wait:
        ringing = multiprocessing.get_context("forkserver").Process(target=Wakeup(tmp_path).ring)
        ringing.start()
        began = time.monotonic()
        wait(LONG)
        assert time.monotonic() - began < LONG / 2
        ringing.join()


def test_a_ring_before_the_wait_is_not_lost_and_counts_once(tmp_path: Path) -> None:
    with Wakeup(tmp_path).heard() as wait:
        Wakeup(tmp_path).ring()
        Wakeup(tmp_path).ring()
        wait(LONG)
        began = time.monotonic()
        wait(0.05)
        assert time.monotonic() - began >= 0.04


def test_it_may_ring_where_nobody_listens_and_without_end(tmp_path: Path) -> None:
    bell = Wakeup(tmp_path)
    bell.ring()  # nobody ever listened
    with bell.heard():
        # More than a pipe holds: a ring never waits.
        ringing = threading.Thread(target=lambda: [bell.ring() for _ in range(70_000)], daemon=True)
        ringing.start()
        ringing.join(60)
        assert not ringing.is_alive()
    bell.ring()  # nobody listens any more


def test_something_in_its_place_only_makes_waiting_longer(tmp_path: Path) -> None:
    (tmp_path / "worker.bell").write_text("a file")
    with Wakeup(tmp_path).heard() as wait:
        began = time.monotonic()
        wait(0.05)
        assert time.monotonic() - began >= 0.04
    with Wakeup(tmp_path / "no folder").heard() as wait:
        wait(0.01)


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with Wakeup(tmp_path).heard():
        assert [file.name for file in tmp_path.iterdir()] == ["worker.bell"]
    assert list(tmp_path.iterdir()) == []
