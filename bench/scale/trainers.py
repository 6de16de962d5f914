"""Trainers with the real worker's claims, leases, folders and progress, but instant training.

The question is whether each job takes effect once, when trainers die at any time. So only the
adapter is replaced, by a small file. A fork server imports the worker once. Each trainer is a
process that can be killed or suspended.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sottovoce.cloud.job import Job, Progress, State
from sottovoce.cloud.jobs.queue import Lease, LeaseLost
from sottovoce.cloud.training import worker
from sottovoce.cloud.training.trainer import Base
from sottovoce.cloud.training.worker import Scratch, Worker
from sottovoce.core.errors import Unavailable

__all__ = ["STEPS", "Place", "Trainers", "lines"]

STEPS = 4
"""Progress reports of a job; each counts as a second of training."""
_STEP_SECONDS = 0.02
"""Seconds between reports, because a trainer spends most time outside a transaction."""

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["sottovoce.cloud.training.worker"])


@dataclass(frozen=True, slots=True)
class Place:
    """The trainers' state folder and database, and the duration of a lease."""

    state: Path
    store: str
    lease_seconds: float


def lines(place: Place, what: str) -> list[str]:
    """Return the job ids recorded as ``what``: "ended", "refused" or "cut off"."""
    file = place.state / what
    return file.read_text().splitlines() if file.exists() else []


class _Trainer(Worker):
    """A worker without training that records how its jobs ended."""

    def _fit(self, job: Job, lease: Lease, place: Scratch, base: Base | None) -> None:
        self.queue.begin(lease, ("a", "b"))
        for step in range(1, STEPS + 1):
            self.queue.report(lease, Progress(step=step, steps=STEPS), float(step))
            time.sleep(_STEP_SECONDS)
        place.adapter.mkdir()
        (place.adapter / "weights").write_text(job.id)

    def _bring_to_an_end(self, job: Job, lease: Lease) -> str:
        try:
            outcome = super()._bring_to_an_end(job, lease)
        except LeaseLost:
            self._note("refused", job)
            raise
        except Unavailable:
            self._note("cut off", job)
            raise
        if self.jobs.get(job.id).state == State.SUCCEEDED:
            self._note("ended", job)
        return outcome

    def _note(self, what: str, job: Job) -> None:
        descriptor = os.open(self.state / what, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        os.write(descriptor, f"{job.id}\n".encode())
        os.close(descriptor)


def _train(place: Place, owner: str) -> None:
    # Jobs must not fail for too many attempts, because the bench kills their trainers.
    worker.ATTEMPTS = sys.maxsize
    _Trainer(
        place.state, "none", owner=owner, lease_seconds=place.lease_seconds, store=place.store
    ).run()


class Trainers:
    """Processes that claim jobs; a killed one is replaced by one with a new name."""

    def __init__(self, place: Place, number: int) -> None:
        self._place = place
        self._names = map("trainer-{}".format, itertools.count())
        self._running: dict[str, Any] = {}
        for _ in range(number):
            self._start()

    def _start(self) -> None:
        name = next(self._names)
        process = _processes.Process(target=_train, args=(self._place, name))
        process.start()
        self._running[name] = process

    @property
    def names(self) -> list[str]:
        """Return the names of the running trainers, the oldest first."""
        return [*self._running]

    def kill(self, name: str) -> None:
        """Kill a trainer with SIGKILL, and start another."""
        process = self._running.pop(name)
        process.kill()
        process.join()
        self._start()

    @contextlib.contextmanager
    def asleep(self, name: str) -> Iterator[None]:
        """Suspend a trainer while the block lasts."""
        pid = self._running[name].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill all trainers."""
        for process in self._running.values():
            process.kill()
            process.join()
