"""The parts of a run that need nothing of one another, so that every core has one.

Why it is here: one process leaves half of two cores idle for a quarter of an hour. A job is named
by three words, which is all a process has to be sent; what it finds depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Final, Literal, NamedTuple, Self, assert_never

from bench.attacks import people
from bench.attacks.baselines import Scrubbed
from bench.attacks.channels import CLEAR, Words
from bench.attacks.entities import read_entities
from bench.attacks.frontier import Point
from bench.attacks.harness import MECHANISMS, Harness, Row
from bench.attacks.interface import TextChannel
from sottovoce.core.privacy.setting import Setting

__all__ = ["ALL", "BASELINES", "Job", "Kind", "Part", "Scope", "do", "plan"]

BASELINES: Final = ("PCT2T", "T2T", "SanText", "CusText", "PII scrubbing")
_SCRUBBING: Final = BASELINES[-1]


@dataclass(frozen=True)
class Scope:
    """What is measured.

    Attributes:
        mechanisms: of ours, on words.
        baselines: of `BASELINES`.
        levels: of all of them; empty for the bundle's.
        rest: tokens, averaging, who wrote, entities, and the attacks on clear text, too.
    """

    mechanisms: tuple[str, ...] = MECHANISMS
    baselines: tuple[str, ...] = BASELINES
    levels: tuple[str, ...] = ()
    rest: bool = True


ALL: Final = Scope()


Clear = Literal["clear text", "attacks on clear words", "attacks on clear vectors"]
Kind = Literal[
    Clear, "words", "baseline", "scrubbing", "tokens", "averaging", "entities", "attributes"
]


class Job(NamedTuple):
    """What to do, to what, at which level."""

    kind: Kind
    name: str = ""
    level: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in self if part)


@dataclass(frozen=True)
class Part:
    """What jobs found.

    Attributes:
        rows: of attacks on what is hidden.
        clear: of attacks on what is not.
        measured: of mechanisms, without an attacker.
        points: what is recovered and what is left.
        texts: how much was attacked and judged.
    """

    rows: list[Row] = field(default_factory=list)
    clear: list[Row] = field(default_factory=list)
    measured: list[Row] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    texts: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Iterable[Self]) -> Self:
        """All of them, in order."""
        found = cls()
        for part in parts:
            for each in fields(cls):
                getattr(found, each.name).extend(getattr(part, each.name))
        return found


def plan(scope: Scope, levels: Iterable[str]) -> list[Job]:
    """The jobs of ``scope`` at ``levels``, as the tables order them."""
    levels = [*levels]
    jobs = [Job("attacks on clear words"), Job("attacks on clear vectors")] if scope.rest else []
    jobs += [Job("words", name, level) for name in scope.mechanisms for level in levels]
    jobs += [
        Job("baseline", name, level)
        for level in levels
        for name in scope.baselines
        if name != _SCRUBBING
    ]
    jobs += [Job("scrubbing") for name in scope.baselines if name == _SCRUBBING]
    if scope.rest:
        widths = ("privacy space", "full width")
        jobs += [Job("tokens", width, level) for width in widths for level in levels]
        jobs += [Job("averaging", "", level) for level in levels]
        people_at = (CLEAR.level, *levels)
        jobs += [Job("entities", "", level) for level in people_at]
        jobs += [Job("attributes", "", level) for level in people_at]
    return [*jobs, Job("clear text")]


def do(harness: Harness, job: Job) -> Part:
    """What ``job`` finds, whatever ran before it."""
    public, data, budget = harness.public, harness.data, harness.budget
    match job.kind:
        case "clear text":
            return _clear_text(harness)
        case "attacks on clear words":
            return Part(clear=harness.clear_words())
        case "attacks on clear vectors":
            return Part(clear=harness.clear_vectors())
        case "words":
            channel = Words(public, Setting(job.level, job.name))
            found = _attacked(harness, channel, networks=1)
            found.rows.extend(harness.on_vectors(channel))
            return found
        case "baseline":
            return _attacked(harness, harness.baseline(job.name, job.level), networks=0)
        case "scrubbing":
            train = read_entities(data / "wnut17" / "train.jsonl.gz", budget.messages)
            scrubbed = Scrubbed(public, people.recogniser(public, train))
            return _attacked(harness, scrubbed, networks=0)
        case "tokens":
            rows, point = harness.on_tokens(job.level, full_width=job.name == "full width")
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


def _attacked(harness: Harness, channel: TextChannel, networks: int) -> Part:
    found = harness.on_words(channel, networks)
    row, point = harness.measures(channel, found)
    return Part(rows=found.rows, measured=[row], points=[point])
