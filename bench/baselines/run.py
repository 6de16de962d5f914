"""Attack the mechanisms of `bench.baselines` one after the other, each in its own process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from bench.attacks import people, tokens
from bench.attacks.channels import Words
from bench.attacks.entities import read_entities
from bench.attacks.frontier import Point
from bench.attacks.harness import Harness, Row
from bench.attacks.interface import TextChannel
from bench.attacks.run import Place
from bench.baselines.custext import CusText
from bench.baselines.full_width import FullWidth
from bench.baselines.santext import SanText
from bench.baselines.scrubbing import Scrubbed
from bench.baselines.token_embedding import full_width
from sottovoce.core.privacy.mechanisms.spherical import PCT2T, PCT2T2, T2T
from sottovoce.core.privacy.policies import Setting

__all__ = ["BASELINES", "OURS", "Job", "Outcome", "opened", "plan"]

SCRUBBING: Final = "PII scrubbing"
TOKENS: Final = "token embedding"
BASELINES: Final = ("PCT2T", "T2T", "SanText", "CusText", SCRUBBING, TOKENS)
OURS: Final = (PCT2T2.name, PCT2T.name, T2T.name)
_CLEAR: Final = "clear text"


class Job(NamedTuple):
    """A mechanism to attack at a level."""

    name: str
    level: str = ""


@dataclass(frozen=True)
class Outcome:
    """The result of a job."""

    rows: list[Row] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def plan(baselines: Sequence[str], ours: Sequence[str], levels: Sequence[str]) -> list[Job]:
    """Return the jobs, the clear text last."""
    jobs = [Job(name, level) for name in ours for level in levels]
    for name in baselines:
        jobs += [Job(name, level) for level in (("",) if name == SCRUBBING else levels)]
        if name == TOKENS:
            jobs += [Job(f"our {TOKENS}", level) for level in levels]
    return [*jobs, Job(_CLEAR)]


def _do(harness: Harness, job: Job) -> Outcome:
    if job.name == _CLEAR:
        return Outcome(points=[Point("none", "clear", {}, harness.clear_utility())])
    if TOKENS in job.name:
        bundle = harness.public.bundle
        channel = next(each for each in tokens.levels_of(bundle) if each.level == job.level)
        if job.name == TOKENS:
            stated = bundle.manifest.embed[job.level].map_attack
            channel = full_width(channel, harness.embeddings, stated)
        rows, point = harness.on_tokens(channel)
        return Outcome(rows, [point])
    found, point = harness.words_point(_channel(harness, job))
    return Outcome(found.rows, [point])


def _channel(harness: Harness, job: Job) -> TextChannel:
    public = harness.public
    if job.name in OURS:
        return Words(public, Setting(job.level, job.name))
    if job.name == SCRUBBING:
        train = harness.data / "wnut17" / "train.jsonl.gz"
        known = read_entities(train, harness.budget.messages)
        return Scrubbed(public, people.recogniser(public, known))
    if job.name == "PCT2T":
        return FullWidth(Words(public, Setting(job.level, PCT2T.name)))
    words = Words(public, Setting(job.level, T2T.name))
    match job.name:
        case "SanText":
            return SanText(words)
        case "CusText":
            return CusText(words)
        case _:
            return FullWidth(words)


def opened(place: Place) -> Callable[[Job], Outcome]:
    """Return the function that runs a job; see `processes.share_out`."""
    return partial(_do, place.harness())
