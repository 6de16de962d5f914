"""Tables of `bench.private_prompts`, and the published figures beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.console import Figures, Table, percent, table
from bench.private_prompts.runs import Cell
from bench.resampling import mean

__all__ = ["AIMS", "PUBLISHED", "rows", "show"]

PUBLISHED: Final[dict[str, dict[str, float]]] = {
    "prompt": {"0": 0.9564, "8": 0.9232, "3": 0.9048},
    "prefix": {"0": 0.9633, "8": 0.9197, "3": 0.9037},
    "lora": {"0": 0.9660, "8": 0.9297, "3": 0.9260},
}
"""SST-2, RoBERTa-base, 67,349 phrases (Duan et al., 2023, tables 1 and 4; LoRA after Yu et al.)."""

AIMS: Final = {8.0: 0.015, 3.0: 0.025}
"""Maximum loss of a method trained on about 10,000 examples, by epsilon."""

_AIMED_AT: Final = 9_500
"""Minimum number of examples for these aims: all of AG News but its held-out part."""

Bools = NDArray[np.bool_]


def rows(cells: Sequence[tuple[Cell, dict[str, Any]]]) -> list[Figures]:
    """One for each task, release and method: accuracy by epsilon, and the drop from none to each.

    Intervals are over seeds and questions, both drawn anew; a drop's are of the same ones.
    """
    groups: dict[tuple[str, str, str], dict[float, dict[int, list[bool]]]] = {}
    sizes: dict[tuple[str, str, str], int] = {}
    for cell, found in cells:
        key = cell.text.task, cell.text.release, cell.method
        groups.setdefault(key, {}).setdefault(cell.epsilon, {})[cell.seed] = found["right"]
        sizes[key] = found["train"]
    made = []
    for key, by_epsilon in groups.items():
        right = {e: np.array([*by_seed.values()]) for e, by_seed in by_epsilon.items()}
        row: Figures = dict(zip(("task", "release", "method"), key, strict=True))
        row |= {"train": sizes[key], "seeds": min(map(len, right.values()))}
        row["accuracy"] = {f"{e:g}": mean(each) for e, each in right.items()}
        if 0.0 in right:
            row["drop"] = {
                f"{e:g}": mean(_apart(by_epsilon[0.0], by_epsilon[e])) for e in right if e
            }
        made.append(row)
    return made


def _apart(one: dict[int, list[bool]], other: dict[int, list[bool]]) -> NDArray[np.float64]:
    seeds = sorted(one.keys() & other.keys())
    return np.array([np.subtract(one[s], other[s], dtype=float) for s in seeds])


def show(figures: Figures) -> list[Table]:
    """Return our table, then the published one."""
    epsilons = [f"{epsilon:g}" for epsilon in figures["epsilons"]]
    private = [epsilon for epsilon in epsilons if epsilon != "0"]
    ours = table(
        f"accuracy and points lost to privacy (95 % over {figures['seeds']} seeds and questions)",
        ("task", "text", "method"),
        (
            "examples",
            *("none" if e == "0" else f"eps {e}" for e in epsilons),
            *(f"lost at {e}" for e in private),
            "aim",
        ),
        (
            (
                row["task"],
                row["release"],
                row["method"],
                f"{row['train']:,}",
                *(_accuracy(row["accuracy"].get(e)) for e in epsilons),
                *(percent(row.get("drop", {}).get(e)) for e in private),
                _verdict(row),
            )
            for row in figures["rows"]
        ),
    )
    published = table(
        "published: SST-2, RoBERTa-base, 67,349 examples",
        ("method",),
        ("not private", "epsilon 8", "epsilon 3", "lost at 8", "lost at 3"),
        (
            (
                method,
                *(f"{100 * known[e]:.1f}" for e in ("0", "8", "3")),
                *(f"{100 * (known['0'] - known[e]):.1f}" for e in ("8", "3")),
            )
            for method, known in PUBLISHED.items()
        ),
    )
    return [ours, published]


def _accuracy(found: dict[str, Any] | None) -> str | None:
    return None if found is None else f"{100 * found['mean']:.1f}"


def _verdict(row: Figures) -> str | None:
    """Return whether the means reach the aims; None with too few examples."""
    if row["train"] < _AIMED_AT:
        return None
    found = row.get("drop", {})
    kept = [found[f"{e:g}"]["mean"] <= most for e, most in AIMS.items() if f"{e:g}" in found]
    return ("holds" if all(kept) else "missed") if kept else None
