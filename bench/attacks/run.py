"""Everything `bench.attacks` measures, in order, as one dictionary.

Why it is here: the command line and the report want the same figures, a test wants few of them.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from bench.attacks import people, report
from bench.attacks.attack import TextChannel
from bench.attacks.channels import CLEAR, Public, Words
from bench.attacks.entities import read_entities
from bench.attacks.frontier import Point, against, beside
from bench.attacks.harness import MECHANISMS, TAGS, Budget, Harness, Progress, Row
from sottovoce.edge.bundle import Bundle
from sottovoce.edge.mechanisms import PCT2T
from sottovoce.edge.release import Setting

__all__ = ["ALL", "DATA_SETS", "SCRUBBING", "Scope", "clock", "failed", "measure"]

DATA_SETS: Final = ("ud_gum", "ud_ewt", "wnut17", "blogs", "sst2")
SCRUBBING: Final = "PII scrubbing"


@dataclass(frozen=True)
class Scope:
    """What is measured.

    Attributes:
        mechanisms: of ours, on words.
        baselines: of `Harness.baselines`, and `SCRUBBING`.
        levels: of all of them; empty for the bundle's.
        tags: hidden alone, at the level ``parts_at``.
        rest: tokens, averaging, who wrote, entities, and the attacks on clear text, too.
    """

    mechanisms: tuple[str, ...] = MECHANISMS
    baselines: tuple[str, ...] = ("PCT2T", "T2T", "SanText", "CusText", SCRUBBING)
    levels: tuple[str, ...] = ()
    tags: tuple[str, ...] = TAGS
    parts_at: str = "balanced"
    rest: bool = True


ALL: Final = Scope()


def clock() -> Progress:
    """Tells each stage and the seconds since this call, on standard error."""
    start = time.monotonic()

    def tell(stage: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {stage}", file=sys.stderr, flush=True)

    return tell


def measure(
    bundle: Path, models: Path, data: Path, budget: Budget, tell: Progress, scope: Scope = ALL
) -> dict[str, Any]:
    """Runs what ``scope`` says.

    Args:
        bundle, models, data: folders.
        budget: how much of everything.
        tell: told of progress.
    """
    start = time.monotonic()
    public = Public.of(Bundle.open(bundle), models)
    harness = Harness(public, data, budget, tell)
    run = _Run(harness, [], [], [])
    clear: list[Row] = harness.clear() if scope.rest else []
    levels = scope.levels or tuple(harness.levels)
    for mechanism in scope.mechanisms:
        for level in levels:
            channel = Words(public, Setting(level, mechanism))
            run.words(channel, networks=int(scope.rest))
            if scope.rest:
                run.rows.extend(harness.on_vectors(channel))
    for level in levels:
        for name, make in harness.baselines(level).items():
            if name in scope.baselines:
                tell(f"preparing {name} {level}")
                run.words(make(), networks=0)
    if SCRUBBING in scope.baselines:
        tell(SCRUBBING)
        train = read_entities(data / "wnut17" / "train.jsonl.gz", budget.messages)
        run.words(harness.scrubber(people.recogniser(public, train)), networks=0)
    if scope.rest:
        rows, points = harness.on_tokens()
        run.rows.extend(rows)
        run.points.extend(points)
        for level in levels:
            run.rows.extend(harness.averaging(level))
        clear += _people(harness, run.rows)
    tell("comparing at equal attack success")
    utility = harness.clear_utility()
    return {
        "bundle": public.bundle.id,
        "backbone": public.bundle.manifest.backbone.name,
        "default": PCT2T.name,
        "sentences": len(harness.private.documents),
        "words": len(harness.private),
        "judged": {name: int(each.judged.sum()) for name, each in _judged(harness).items()},
        "torch": torch.__version__,
        "rows": run.rows,
        "clear": {"rows": clear, "failed": failed(clear, run.rows)},
        "measures": {
            "strongest": report.strongest(run.rows),
            "mechanisms": run.measured,
            "utility": [
                *(_figures(point) for point in run.points),
                _figures(Point("none", "clear", {}, utility)),
            ],
            "comparisons": [
                row for point, curve in _pairs(run.points) for row in against(point, curve, utility)
            ],
            "beside": [
                row
                for point, curve in _pairs(run.points)
                for other in curve
                if other.level == point.level
                for row in beside(point, other)
            ],
            "parts_of_speech": harness.parts_of_speech(scope.parts_at, scope.tags),
            "parts_at": scope.parts_at,
        },
        "seconds": time.monotonic() - start,
    }


@dataclass(frozen=True)
class _Run:
    """What has been found so far."""

    harness: Harness
    rows: list[Row]
    measured: list[Row]
    points: list[Point]

    def words(self, channel: TextChannel, networks: int) -> None:
        found = self.harness.on_words(channel, networks)
        row, point = self.harness.measures(channel, found)
        self.rows.extend(found.rows)
        self.measured.append(row)
        self.points.append(point)


def _judged(harness: Harness) -> dict[str, Any]:
    everything = harness.judged.all | True
    return harness.judged.tallies(everything)


def _figures(point: Point) -> Row:
    return {"mechanism": point.mechanism, "level": point.level, **point.figures()}


def _people(harness: Harness, rows: list[Row]) -> list[Row]:
    """Adds the attacks on people to ``rows``; returns those on clear text."""
    budget, settings = harness.budget, [CLEAR, *(Setting(level) for level in harness.levels)]
    found = [
        *people.entities(harness.public, harness.data, budget.messages, settings, harness.tell),
        *people.attributes(harness.public, harness.data, budget.posts, settings, harness.tell),
    ]
    rows += [row for row in found if row["level"] != CLEAR.level]
    return [row for row in found if row["level"] == CLEAR.level]


def _pairs(points: list[Point]) -> list[tuple[Point, list[Point]]]:
    """Each of our points, and the curve of every other mechanism that hides the same: words with
    words, tokens with tokens."""
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.mechanism, []).append(point)
    ours = [name for name in curves if name.endswith(".v1")]
    return [
        (point, curve)
        for name in ours
        for other, curve in curves.items()
        if other not in ours and _tokens(name) == _tokens(other)
        for point in curves[name]
    ]


def _tokens(mechanism: str) -> bool:
    return mechanism.startswith("token")


def failed(clear: list[Row], rows: list[Row]) -> list[str]:
    """Attacks that do not reach, where nothing is hidden, what their definition implies: whose
    failure elsewhere would prove nothing."""
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
    averaged = {(row["level"], row["attack"]): row for row in rows if "memo" in row["attack"]}
    for (level, name), row in averaged.items():
        with_memo = averaged[level, name.replace("memo off", "memo on")]
        if row is not with_memo and row["ci"][0] <= with_memo["ci"][1]:
            names.append(f"averaging at {level}")
    return names
