"""Everything `bench.attacks` measures, in order, as one dictionary.

Why it is here: the command line and the report want the same figures, a test wants few of them.
"""

from __future__ import annotations

import time
from typing import Any, Final

import torch

from bench.attacks import report
from bench.attacks.averaging import AFRESH, ONE_KEY
from bench.attacks.frontier import Point, against, beside
from bench.attacks.harness import Row
from bench.attacks.parts import ALL, Part, Scope, plan
from bench.attacks.workers import Place, share_out
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T

__all__ = ["DATA_SETS", "failed", "measure"]

DATA_SETS: Final = ("ud_gum", "ud_ewt", "wnut17", "blogs", "sst2")


def measure(place: Place, scope: Scope = ALL, processes: int = 0) -> dict[str, Any]:
    """Runs what ``scope`` says.

    Args:
        place: folders, and how much of everything.
        scope: what.
        processes: that share the work; 0 for this one alone.
    """
    start = time.monotonic()
    bundle = Bundle.open(place.bundle)
    stated = bundle.manifest.calibration[PCT2T.name]
    levels = scope.levels or sorted(stated, key=lambda level: stated[level].eta)
    done = share_out(plan(scope, levels), place, processes)
    found = Part.of(each.part for each in done)
    clear = next(point.utility for point in found.points if point.mechanism == "none")
    return {
        "bundle": bundle.id,
        "backbone": bundle.manifest.backbone.name,
        "default": PCT2T.name,
        **found.texts[0],
        "torch": torch.__version__,
        "rows": found.rows,
        "clear": {"rows": found.clear, "failed": failed(found.clear, found.rows)},
        "measures": {
            "strongest": report.strongest(found.rows),
            "mechanisms": found.measured,
            "utility": [_figures(point) for point in found.points],
            "comparisons": [
                row for point, curve in _pairs(found.points) for row in against(point, curve, clear)
            ],
            "beside": [
                row
                for point, curve in _pairs(found.points)
                for other in curve
                if other.level == point.level
                for row in beside(point, other)
            ],
        },
        "jobs": [{"job": str(each.job), "seconds": each.seconds} for each in done],
        "processes": processes,
        "seconds": time.monotonic() - start,
    }


def _figures(point: Point) -> Row:
    return {"mechanism": point.mechanism, "level": point.level, **point.figures()}


def _pairs(points: list[Point]) -> list[tuple[Point, list[Point]]]:
    """Each of our points, and the curve of every other mechanism that hides the same: words with
    words, tokens with tokens."""
    curves: dict[str, list[Point]] = {}
    for point in points:
        if point.tallies:
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
    averaged = {
        (row["level"], row["attack"]): row for row in rows if row["attack"].startswith("averaging")
    }
    for (level, name), row in averaged.items():
        keyed = averaged[level, name.replace(AFRESH, ONE_KEY)]
        if row is not keyed and row["ci"][0] <= keyed["ci"][1]:
            names.append(f"averaging at {level}")
    return names
