"""Processes that share the jobs of a run.

Why it is here: every process opens the texts and the bundle once and keeps one core busy with one
thread, so that figures do not depend on how many of them there are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Final

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from bench.attacks.channels import Public
from bench.attacks.harness import Budget, Harness
from bench.attacks.parts import Job, Part, do
from bench.processes import end_with_parent
from sottovoce.core.bundle.folder import Bundle

__all__ = ["Done", "Place", "share_out"]

_LONG: Final = ("baseline", "tokens", "words", "attributes")
"""Kinds begun first, longest first: nobody should work alone at the end."""


@dataclass(frozen=True)
class Place:
    """What a process needs to know: folders, and how much of everything."""

    bundle: Path
    models: Path
    data: Path
    budget: Budget

    def harness(self) -> Harness:
        """Opens them."""
        return Harness(Public.of(Bundle.open(self.bundle), self.models), self.data, self.budget)


@dataclass(frozen=True)
class Done:
    """A job, what it found and how many seconds of a core it took."""

    job: Job
    part: Part
    seconds: float


def share_out(jobs: Sequence[Job], place: Place, processes: int) -> list[Done]:
    """Does ``jobs`` in so many processes, or in this one where that is 0; the results are in the
    order of ``jobs``. Tells of each on standard error."""
    began, console = time.monotonic(), Console(file=sys.stderr)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    found: dict[Job, Done] = {}
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        told = bar.add_task("attacking", total=len(jobs))
        for done in _here(jobs, place) if processes == 0 else _shared(jobs, place, processes):
            found[done.job] = done
            at = time.monotonic() - began
            bar.console.print(f"{at:5.0f} s  {done.job}, {done.seconds:.0f} s", highlight=False)
            bar.advance(told)
    return [found[job] for job in jobs]


def _here(jobs: Sequence[Job], place: Place) -> Iterator[Done]:
    harness = place.harness()
    return (_timed(harness, job) for job in jobs)


def _shared(jobs: Sequence[Job], place: Place, processes: int) -> Iterator[Done]:
    first = sorted(jobs, key=lambda job: _LONG.index(job.kind) if job.kind in _LONG else len(_LONG))
    pool = ProcessPoolExecutor(min(processes, len(jobs)), get_context("spawn"), _start, (place,))
    with pool:
        try:
            waiting: list[Future[Done]] = [pool.submit(_work, job) for job in first]
            for each in as_completed(waiting):
                yield each.result()
        except BaseException:  # nobody waits for what others are at
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                process.terminate()
            raise


_harness: Harness | None = None


def _start(place: Place) -> None:
    """Opens a process."""
    global _harness
    torch.set_num_threads(1)
    threadpool_limits(1)  # numpy's products: another number of threads rounds them otherwise
    end_with_parent()
    _harness = place.harness()


def _work(job: Job) -> Done:
    assert _harness is not None
    return _timed(_harness, job)


def _timed(harness: Harness, job: Job) -> Done:
    began = time.process_time()
    return Done(job, do(harness, job), time.process_time() - began)
