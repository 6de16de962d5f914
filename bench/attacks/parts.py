"""The independent jobs of a run, so that every core can work on one.

Three words name a job. A process receives only these words, and the job's result depends on nothing
else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Final, Literal, NamedTuple, Self, assert_never

from bench.attacks import people, tokens
from bench.attacks.channels import CLEAR, Words
from bench.attacks.frontier import Point
from bench.attacks.harness import MECHANISMS, Harness, Row
from sottovoce.core.privacy.policies import LEVELS, Setting

__all__ = ["ALL", "Job", "Kind", "Part", "Scope", "do", "plan"]


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


def do(harness: Harness, job: Job) -> Part:
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
