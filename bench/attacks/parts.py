"""The parts of a run that need nothing of one another, so that every core has one.

Why it is here: one process leaves half of two cores idle for a quarter of an hour. A job is named
by three words, which is all a process has to be sent; what it finds depends on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple, Self

from bench.attacks import people
from bench.attacks.channels import CLEAR, Words
from bench.attacks.entities import read_entities
from bench.attacks.frontier import Point
from bench.attacks.harness import MECHANISMS, Harness, Row
from bench.attacks.interface import TextChannel
from sottovoce.core.privacy.setting import Setting

__all__ = ["ALL", "BASELINES", "Job", "Part", "Scope", "do", "plan"]

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


class Job(NamedTuple):
    """What to do, to what, at which level."""

    kind: str
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
    return _KINDS[job.kind](harness, job)


def _clear_text(harness: Harness, job: Job) -> Part:
    texts = {"sentences": len(harness.private.documents), "words": len(harness.private)}
    point = Point("none", CLEAR.level, {}, harness.clear_utility())
    every = harness.judged.tallies(harness.judged.all)
    judged = {name: int(each.judged.sum()) for name, each in every.items()}
    return Part(points=[point], texts=[{**texts, "judged": judged}])


def _clear_words(harness: Harness, job: Job) -> Part:
    return Part(clear=harness.clear_words())


def _clear_vectors(harness: Harness, job: Job) -> Part:
    return Part(clear=harness.clear_vectors())


def _words(harness: Harness, job: Job) -> Part:
    channel = Words(harness.public, Setting(job.level, job.name))
    found = _attacked(harness, channel, networks=1)
    found.rows.extend(harness.on_vectors(channel))
    return found


def _baseline(harness: Harness, job: Job) -> Part:
    return _attacked(harness, harness.baseline(job.name, job.level), networks=0)


def _scrubbing(harness: Harness, job: Job) -> Part:
    train = read_entities(harness.data / "wnut17" / "train.jsonl.gz", harness.budget.messages)
    recogniser = people.recogniser(harness.public, train)
    return _attacked(harness, harness.scrubber(recogniser), networks=0)


def _attacked(harness: Harness, channel: TextChannel, networks: int) -> Part:
    found = harness.on_words(channel, networks)
    row, point = harness.measures(channel, found)
    return Part(rows=found.rows, measured=[row], points=[point])


def _tokens(harness: Harness, job: Job) -> Part:
    rows, point = harness.on_tokens(job.level, full_width=job.name == "full width")
    return Part(rows=rows, points=[point])


def _averaging(harness: Harness, job: Job) -> Part:
    return Part(rows=harness.averaging(job.level))


def _entities(harness: Harness, job: Job) -> Part:
    messages = harness.budget.messages
    return _of_people(job, people.entities(harness.public, harness.data, messages, _setting(job)))


def _attributes(harness: Harness, job: Job) -> Part:
    posts = harness.budget.posts
    return _of_people(job, people.attributes(harness.public, harness.data, posts, _setting(job)))


def _setting(job: Job) -> Setting:
    return CLEAR if job.level == CLEAR.level else Setting(job.level)


def _of_people(job: Job, rows: list[Row]) -> Part:
    return Part(clear=rows) if job.level == CLEAR.level else Part(rows=rows)


_KINDS: Final[dict[str, Callable[[Harness, Job], Part]]] = {
    "clear text": _clear_text,
    "attacks on clear words": _clear_words,
    "attacks on clear vectors": _clear_vectors,
    "words": _words,
    "baseline": _baseline,
    "scrubbing": _scrubbing,
    "tokens": _tokens,
    "averaging": _averaging,
    "entities": _entities,
    "attributes": _attributes,
}
