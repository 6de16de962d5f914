"""Everything `bench.attacks` measures, in order, as one dictionary.

Why it is here: the command line and the report want the same figures, a test wants few of them. The
jobs need nothing of one another, so that every core has one; every process opens the texts and the
bundle once, and tells of each job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import torch

from bench import console, processes
from bench.attacks import report
from bench.attacks.channels import CLEAR, Words
from bench.attacks.harness import MECHANISMS, Budget, Harness, Row
from bench.attacks.public import Public
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.setting import LEVELS, Setting

__all__ = [
    "ALL",
    "DATA_SETS",
    "Job",
    "Part",
    "Place",
    "Scope",
    "failed",
    "measure",
    "parts",
    "plan",
]

DATA_SETS: Final = ("ud_gum", "ud_ewt", "sst2")


@dataclass(frozen=True)
class Scope:
    """Which mechanisms on words are measured, at which levels of each."""

    mechanisms: tuple[str, ...] = MECHANISMS
    levels: tuple[str, ...] = LEVELS


ALL: Final = Scope()


class Job(NamedTuple):
    """What to attack; without a mechanism, clear text."""

    mechanism: str = ""
    level: str = ""


@dataclass(frozen=True)
class Part:
    """What jobs found.

    Attributes:
        rows: of attacks on what is hidden.
        clear: of attacks on what is not.
        costs: what is left for use.
        texts: how much was attacked and judged.
    """

    rows: list[Row] = field(default_factory=list)
    clear: list[Row] = field(default_factory=list)
    costs: list[Row] = field(default_factory=list)
    texts: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[Self]) -> Self:
        """All of them, in order."""
        found = cls()
        for part in parts:
            for each in fields(cls):
                getattr(found, each.name).extend(getattr(part, each.name))
        return found


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


def plan(scope: Scope) -> list[Job]:
    """The jobs of ``scope``, as the tables order them."""
    return [Job(name, level) for name in scope.mechanisms for level in scope.levels] + [Job()]


def do(harness: Harness, job: Job) -> Part:
    """What ``job`` finds, whatever ran before it."""
    if job.mechanism:
        channel = Words(harness.public, Setting(job.level, job.mechanism))
        rows, releases = harness.on_words(channel)
        costs = [harness.costs(channel, releases)]
        return Part(rows=[*rows, *harness.on_vectors(channel)], costs=costs)
    channel = Words(harness.public, CLEAR)
    rows, releases = harness.on_words(channel)
    every = harness.judged.tallies(harness.judged.all)
    judged = {name: int(each.judged.sum()) for name, each in every.items()}
    size = {"sentences": len(harness.private.documents), "words": len(harness.private)}
    return Part(
        clear=[*rows, *harness.clear_vectors()],
        costs=[harness.costs(channel, releases)],
        texts=[{**size, "judged": judged}],
    )


def measure(place: Place, scope: Scope = ALL, processes: int = 0) -> dict[str, Any]:
    """Runs what ``scope`` says.

    Args:
        place: folders, and how much of everything.
        scope: what.
        processes: that share the work; 0 for this one alone.
    """
    start = time.monotonic()
    bundle = Bundle.open(place.bundle)
    found = Part.of(parts(plan(scope), place, processes))
    return {
        "bundle": bundle.id,
        "backbone": bundle.manifest.backbone.name,
        "default": Setting().mechanism,
        **found.texts[0],
        "torch": torch.__version__,
        "rows": found.rows,
        "clear": {"rows": found.clear, "failed": failed(found.clear)},
        "strongest": report.strongest(found.rows),
        "utility": found.costs,
        "processes": processes,
        "seconds": time.monotonic() - start,
    }


def parts(jobs: Sequence[Job], place: Place, count: int) -> list[Part]:
    """What ``jobs`` find, in their order; see `processes.share_out`."""
    done = processes.share_out(_opened, place, jobs, count)
    found = dict(console.track(done, "attacking", total=len(jobs)))
    return [found[job] for job in jobs]


def _opened(place: Place) -> Callable[[Job], Part]:
    return partial(do, place.harness())


def failed(clear: list[Row]) -> list[str]:
    """Attacks that do not reach, where nothing is hidden, what their definition implies: whose
    failure elsewhere would prove nothing."""
    return [f"{row['attack']} ({row['sees']})" for row in clear if row["success"] <= 0.95]
