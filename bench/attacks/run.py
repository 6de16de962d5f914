"""Run all measurements of `bench.attacks`, in order, and return one dictionary.

A test needs only a few of them. Every process opens the
texts and the bundle once, and reports each finished job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, get_args

import torch

from bench import console, processes
from bench.attacks import report
from bench.attacks.averaging import AFRESH, ONE_KEY
from bench.attacks.harness import Budget, Harness, Row
from bench.attacks.parts import ALL, Job, Kind, Part, Scope, do, plan
from bench.attacks.public import Public
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting

__all__ = ["DATA_SETS", "Place", "failed", "measure", "parts"]

DATA_SETS: Final = ("ud_gum", "ud_ewt", "wnut17", "blogs", "sst2")

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
    return partial(do, place.harness())


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
