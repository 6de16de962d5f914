"""The jobs of a run, done in this process or shared out.

Why it is here: every process opens the texts and the bundle once, and tells of each job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import console, processes
from bench.attacks.harness import Budget, Harness
from bench.attacks.parts import Job, Part, do
from bench.attacks.public import Public
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
        return Harness(Public(Bundle.open(self.bundle), self.models), self.data, self.budget)


@dataclass(frozen=True)
class Done:
    """A job, what it found and how many seconds of a core it took."""

    job: Job
    part: Part
    seconds: float


def share_out(jobs: Sequence[Job], place: Place, n: int) -> list[Done]:
    """Does ``jobs`` in ``n`` processes, or in this one where that is 0; the results are in the
    order of ``jobs``."""
    began, found = time.monotonic(), dict[Job, Done]()
    with console.progress() as bar:
        told = bar.add_task("attacking", total=len(jobs))
        for done in _here(jobs, place) if n == 0 else _shared(jobs, place, n):
            found[done.job] = done
            at = time.monotonic() - began
            bar.console.print(f"{at:5.0f} s  {done.job}, {done.seconds:.0f} s", highlight=False)
            bar.advance(told)
    return [found[job] for job in jobs]


def _here(jobs: Sequence[Job], place: Place) -> Iterator[Done]:
    harness = place.harness()
    return (_timed(harness, job) for job in jobs)


def _shared(jobs: Sequence[Job], place: Place, n: int) -> Iterator[Done]:
    first = sorted(jobs, key=lambda job: _LONG.index(job.kind) if job.kind in _LONG else len(_LONG))
    return (done for _, done in processes.share_out(_work, first, n, _open, place))


_harness: Harness | None = None


def _open(place: Place) -> None:
    global _harness
    _harness = place.harness()


def _work(job: Job) -> Done:
    assert _harness is not None
    return _timed(_harness, job)


def _timed(harness: Harness, job: Job) -> Done:
    began = time.process_time()
    return Done(job, do(harness, job), time.process_time() - began)
