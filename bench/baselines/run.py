"""How do the mechanisms of other authors compare with ours at equal attack success?

T2T and PCT2T at full width, SanText, CusText, PII scrubbing and token embedding as
Split-and-Denoise publishes it. Each meets the attackers of `bench.attacks` on the same words. Each
of our levels is then held against the other's curve, where attackers recover the same of both.
DPNR and CAPE send embeddings of sentences: see `bench.embedding.outputs`.

    python -m bench.baselines --quick
    python -m bench.baselines --quick --only SanText,CusText
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from bench import console, processes
from bench.attacks import people, tokens
from bench.attacks.channels import Words
from bench.attacks.entities import read_entities
from bench.attacks.frontier import Point, against
from bench.attacks.harness import FULL, QUICK, Harness, Row
from bench.attacks.interface import TextChannel
from bench.attacks.run import DATA_SETS, Place
from bench.baselines.custext import CusText
from bench.baselines.full_width import FullWidth
from bench.baselines.santext import SanText
from bench.baselines.scrubbing import Scrubbed
from bench.baselines.token_embedding import full_width
from bench.console import Figures, Table, share, span
from bench.data import require
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T, PCT2T2
from sottovoce.core.privacy.mechanisms.t2t import T2T
from sottovoce.core.privacy.setting import LEVELS, Setting

__all__ = ["BASELINES", "OURS"]

SCRUBBING: Final = "PII scrubbing"
TOKENS: Final = "token embedding"
BASELINES: Final = ("PCT2T", "T2T", "SanText", "CusText", SCRUBBING, TOKENS)
OURS: Final = (PCT2T2.name, PCT2T.name, T2T.name)
_CLEAR: Final = "clear text"


class _Job(NamedTuple):
    name: str
    level: str = ""


@dataclass(frozen=True)
class _Found:
    rows: list[Row] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)


def _plan(baselines: Sequence[str], ours: Sequence[str], levels: Sequence[str]) -> list[_Job]:
    jobs = [_Job(name, level) for name in ours for level in levels]
    for name in baselines:
        jobs += [_Job(name, level) for level in (("",) if name == SCRUBBING else levels)]
        if name == TOKENS:
            jobs += [_Job(f"our {TOKENS}", level) for level in levels]
    return [*jobs, _Job(_CLEAR)]


def _do(harness: Harness, job: _Job) -> _Found:
    if job.name == _CLEAR:
        return _Found(points=[Point("none", "clear", {}, harness.clear_utility())])
    if TOKENS in job.name:
        bundle = harness.public.bundle
        channel = next(each for each in tokens.levels_of(bundle) if each.level == job.level)
        if job.name == TOKENS:
            stated = bundle.manifest.embed[job.level].map_attack
            channel = full_width(channel, harness.embeddings, stated)
        rows, point = harness.on_tokens(channel)
        return _Found(rows, [point])
    found, point = harness.words_point(_channel(harness, job))
    return _Found(found.rows, [point])


def _channel(harness: Harness, job: _Job) -> TextChannel:
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


def _opened(place: Place) -> Callable[[_Job], _Found]:
    return partial(_do, place.harness())


def _compared(points: Sequence[Point]) -> Iterable[Figures]:
    """Each of our points against every other mechanism that hides the same: words or tokens."""
    clear = next(point.utility for point in points if point.mechanism == "none")
    curves: dict[str, list[Point]] = {}
    for point in points:
        if point.tallies:
            curves.setdefault(point.mechanism, []).append(point)
    for name, levels in curves.items():
        if not name.endswith((".v1", ".v2")):
            continue
        for other, curve in curves.items():
            alike = name.startswith("token") == other.startswith("token")
            if alike and len(curve) > 1 and not other.endswith((".v1", ".v2")):
                for point in levels:
                    yield from against(point, curve, clear)


def main() -> None:
    """Prints the tables."""
    quick = "less of everything: about half an hour on 2 idle cores"
    parser = console.parser("baselines", __doc__, quick=quick, models=True, data="the data sets")
    console.ask_names(parser, "--only", BASELINES)
    console.ask_names(parser, "--mechanisms", OURS, (PCT2T2.name,), ", to compare with")
    console.ask_names(parser, "--levels", LEVELS)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="of about 1 GiB each")
    arguments = parser.parse_args()
    require(parser, arguments.data, *DATA_SETS)
    budget = QUICK if arguments.quick else FULL
    place = Place(arguments.bundle, arguments.models, arguments.data, budget)
    jobs = _plan(arguments.only, arguments.mechanisms, arguments.levels)
    done = processes.share_out(_opened, place, jobs, arguments.processes)
    found = dict(console.track(done, "attacking", total=len(jobs)))
    rows = [row for job in jobs for row in found[job].rows]
    points = [point for job in jobs for point in found[job].points]
    compared = [*_compared(points)]
    utility = [
        {"mechanism": each.mechanism, "level": each.level, **each.figures()} for each in points
    ]
    figures: Figures = {"rows": rows, "utility": utility, "comparisons": compared}
    figures["bundle"] = Bundle.open(arguments.bundle).id
    console.publish(arguments, figures, *_tables(rows, utility, compared))


def _tables(
    rows: Sequence[Row], utility: Sequence[Figures], compared: Sequence[Figures]
) -> Iterable[Table]:
    named = ("mechanism", "level", "attack")
    parts = ("success", "rare", "names", "numbers")
    yield console.table(
        "share recovered",
        named,
        ("all", "95 %", "rare", "names", "numbers"),
        (
            (
                *(row[name] for name in named),
                share(row["success"]),
                span(row["ci"]),
                *(share(row[name]) for name in parts[1:]),
            )
            for row in rows
        ),
    )
    yield console.table(
        "what is left",
        named[:2],
        ("SST-2", "95 %", "cosine", "95 %"),
        (
            (
                *(row[name] for name in named[:2]),
                *(
                    cell
                    for name in ("accuracy", "cosine")
                    for cell in (share(row.get(name)), span(row.get(f"{name}_ci")))
                ),
            )
            for row in utility
        ),
    )
    yield console.table(
        "at equal attack success",
        ("ours", "level", "against", "on", "utility"),
        ("recovered", "value", "theirs", "difference", "95 %", "verdict"),
        (
            (
                *(row[name] for name in ("ours", "level", "against", "on", "utility")),
                *(share(row[name]) for name in ("at", "value", "theirs")),
                share(row["difference"], sign="+"),
                span(row["ci"], sign="+"),
                row["verdict"],
            )
            for row in compared
        ),
    )
