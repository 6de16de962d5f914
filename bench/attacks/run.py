"""Run all measurements of `bench.attacks`, in order, and return one dictionary.

The jobs are independent, so that every core can work on one. Three words name a job. A process
receives only these words, and the job's result depends on nothing else. Every process opens the
texts and the bundle once, and reports each finished job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, Self, assert_never, get_args

import torch

from bench import console, processes
from bench.attacks import people, report, tokens
from bench.attacks.averaging import AFRESH, ONE_KEY
from bench.attacks.channels import CLEAR, Words
from bench.attacks.frontier import Point
from bench.attacks.harness import MECHANISMS, Budget, Harness, Row
from bench.attacks.public import Public
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import LEVELS, Setting

__all__ = [
    "ALL",
    "DATA_SETS",
    "Job",
    "Kind",
    "Place",
    "Scope",
    "failed",
    "measure",
    "parts",
    "plan",
]

DATA_SETS: Final = ("ud_gum", "ud_ewt", "wnut17", "blogs", "sst2")


@dataclass(frozen=True)
class Scope:
    """Selection of the measurements.

    Attributes:
        mechanisms: word mechanisms.
        levels: levels of every mechanism.
        rest: whether to run tokens, averaging, attributes, entities, and the attacks on clear text.
    """

    mechanisms: tuple[str, ...] = MECHANISMS
    levels: tuple[str, ...] = LEVELS
    rest: bool = True


ALL: Final = Scope()


Clear = Literal["clear text", "attacks on clear words", "attacks on clear vectors"]
Kind = Literal["tokens", "words", "attributes", "entities", "averaging", Clear]


class Job(NamedTuple):
    """An action, its mechanism and its level."""

    kind: Kind
    name: str = ""
    level: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


@dataclass(frozen=True)
class Part:
    """Results of jobs.

    Attributes:
        rows: attacks on hidden words.
        clear: attacks on clear text.
        points: recovery and utility of each mechanism and level.
        texts: sizes of the attacked and judged texts.
    """

    rows: list[Row] = field(default_factory=list)
    clear: list[Row] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    texts: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[Self]) -> Self:
        """Return all jobs, in order."""
        found = cls()
        for part in parts:
            for each in fields(cls):
                getattr(found, each.name).extend(getattr(part, each.name))
        return found


def plan(scope: Scope) -> list[Job]:
    """Return the jobs of ``scope``, in the order of the tables."""
    jobs = [Job("attacks on clear words"), Job("attacks on clear vectors")] if scope.rest else []
    jobs += [Job("words", name, level) for name in scope.mechanisms for level in scope.levels]
    if scope.rest:
        jobs += [Job("tokens", "", level) for level in scope.levels]
        jobs += [Job("averaging", "", level) for level in scope.levels]
        people_at = (CLEAR.level, *scope.levels)
        jobs += [Job("entities", "", level) for level in people_at]
        jobs += [Job("attributes", "", level) for level in people_at]
    return [*jobs, Job("clear text")]


def _do(harness: Harness, job: Job) -> Part:
    """Run ``job``, independently of earlier jobs."""
    public, data, budget = harness.public, harness.data, harness.budget
    match job.kind:
        case "clear text":
            return _clear_text(harness)
        case "attacks on clear words":
            return Part(clear=harness.clear_words())
        case "attacks on clear vectors":
            return Part(clear=harness.clear_vectors())
        case "words":
            words = Words(public, Setting(job.level, job.name))
            found, point = harness.words_point(words)
            return Part(rows=[*found.rows, *harness.on_vectors(words)], points=[point])
        case "tokens":
            levels = tokens.levels_of(public.bundle)
            channel = next(each for each in levels if each.level == job.level)
            rows, point = harness.on_tokens(channel)
            return Part(rows=rows, points=[point])
        case "averaging":
            return Part(rows=harness.averaging(job.level))
        case "entities" | "attributes":
            clear = job.level == CLEAR.level
            setting = CLEAR if clear else Setting(job.level)
            if job.kind == "entities":
                rows = people.entities(public, data, budget.messages, setting)
            else:
                rows = people.attributes(public, data, budget.posts, setting)
            return Part(clear=rows) if clear else Part(rows=rows)
        case kind:
            assert_never(kind)


def _clear_text(harness: Harness) -> Part:
    texts = {"sentences": len(harness.private.documents), "words": len(harness.private)}
    point = Point("none", CLEAR.level, {}, harness.clear_utility())
    every = harness.judged.tallies(harness.judged.all)
    judged = {name: int(each.judged.sum()) for name, each in every.items()}
    return Part(points=[point], texts=[{**texts, "judged": judged}])


_LONGEST_FIRST: Final = get_args(Kind)
"""Job order, the longest first, so that all cores finish at about the same time."""


@dataclass(frozen=True)
class Place:
    """Settings of a process: folders, and the sizes of the measurement."""

    bundle: Path
    models: Path
    data: Path
    budget: Budget

    def harness(self) -> Harness:
        """Open the texts and the bundle."""
        return Harness(Public(Bundle.open(self.bundle), self.models), self.data, self.budget)


def measure(place: Place, scope: Scope = ALL, processes: int = 0) -> dict[str, Any]:
    """Runs the measurements in ``scope``.

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
        "clear": {"rows": found.clear, "failed": failed(found.clear, found.rows)},
        "strongest": report.strongest(found.rows),
        "utility": [
            {"mechanism": point.mechanism, "level": point.level, **point.figures()}
            for point in found.points
        ],
        "processes": processes,
        "seconds": time.monotonic() - start,
    }


def parts(jobs: Sequence[Job], place: Place, count: int) -> list[Part]:
    """Return the results of ``jobs``, in their order; see `processes.share_out`."""
    first = sorted(jobs, key=lambda job: _LONGEST_FIRST.index(job.kind))
    done = processes.share_out(_opened, place, first, count)
    found = dict(console.track(done, "attacking", total=len(jobs)))
    return [found[job] for job in jobs]


def _opened(place: Place) -> Callable[[Job], Part]:
    return partial(_do, place.harness())


def failed(clear: list[Row], rows: list[Row]) -> list[str]:
    """Return the attacks that miss their expected success on clear text.

    Low success of these attacks on releases proves nothing.
    """
    names = []
    for row in clear:
        if row["attack"] == "NER, F1":
            works = row["success"] > 0.3
        elif "majority" in row:
            works = row["ci"][0] > row["majority"]
        else:
            works = row["success"] > 0.95
        if not works:
            names.append(f"{row['attack']} ({row['sees']})")
    averaged = {
        (row["level"], row["attack"]): row for row in rows if row["attack"].startswith("averaging")
    }
    for (level, name), row in averaged.items():
        keyed = averaged[level, name.replace(AFRESH, ONE_KEY)]
        if row is not keyed and row["ci"][0] <= keyed["ci"][1]:
            names.append(f"averaging at {level}")
    return names
