"""How much accuracy does private training cost?

The product's own plan, head and trainer run at several epsilons and without privacy, on clear text
and on releases. Without --methods and --full, heads run everywhere, and LoRA runs on the first
task's clear text at epsilon 8 alone. A killed run continues. See docs/training.md.

    python -m bench.private_prompts --quick
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench import console, processes
from bench.console import Figures, Table, percent, table
from bench.data import require
from bench.private_prompts.runs import CLEAR, Cell, Place, Text, encoding, result, working
from bench.resampling import mean
from bench.utility.tasks import files

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


TASKS: Final = ("sst2", "trec", "agnews", "dbpedia")
METHODS: Final = ("head", "prompt", "prefix", "lora")
RELEASES: Final = (CLEAR, "balanced")
EPSILONS: Final = (0.0, 8.0, 3.0, 1.0)

_SHOWN_OFF: Final = ("lora", 8.0)
"""Methods beside heads that quick mode trains, and their epsilon."""


def main() -> None:
    """Run the missing cells, and print the tables."""
    quick = "as without it: heads, and LoRA once: 25 minutes on 2 idle cores"
    parser = console.parser("private_prompts", __doc__, quick=quick, data="the tasks")
    parser.add_argument("--full", action="store_true", help="every method everywhere: days")
    console.ask_names(parser, "--tasks", TASKS)
    console.ask_names(parser, "--methods", METHODS, ())
    parser.add_argument(
        "--releases",
        type=console.names(),
        default=RELEASES,
        metavar="NAMES",
        help=f"comma-separated, {CLEAR} or a level; default: {','.join(RELEASES)}",
    )
    parser.add_argument(
        "--epsilons", type=float, nargs="*", default=EPSILONS, help="0 trains without privacy"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--examples", type=int, default=10_000, help="most examples of each task")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    require(parser, arguments.data, *files(arguments.tasks))
    place = Place(
        arguments.bundle.resolve(),
        arguments.data.resolve(),
        (arguments.out / "cache").resolve(),
        arguments.examples,
    )
    cells, began = _cells(arguments), time.monotonic()
    _run(cells, place, arguments.processes)
    found = [(cell, each) for cell in cells if (each := result(place, cell))]
    figures: Figures = {
        "examples": arguments.examples,
        "epsilons": [*arguments.epsilons],
        "seeds": arguments.seeds,
        "versions": console.versions("torch", "transformers", "dp-accounting", "numpy"),
        "seconds": time.monotonic() - began,
        "rows": rows(found),
        "published": PUBLISHED,
    }
    console.publish(arguments, figures, *show(figures))


def _cells(arguments: Namespace) -> list[Cell]:
    tasks, releases = arguments.tasks, arguments.releases
    methods = arguments.methods or (METHODS if arguments.full else METHODS[:1])
    seeds = range(arguments.seeds)
    cells = [
        Cell(Text(task, release), method, epsilon, seed)
        for method in methods
        for task in tasks
        for release in releases
        for seed in seeds
        for epsilon in arguments.epsilons
    ]
    if not arguments.methods and not arguments.full and CLEAR in releases:
        method, epsilon = _SHOWN_OFF
        cells += [Cell(Text(tasks[0], CLEAR), method, each, 0) for each in (0.0, epsilon)]
    return cells


def _run(cells: list[Cell], place: Place, count: int) -> None:
    missing = [cell for cell in cells if result(place, cell) is None]
    texts = [*dict.fromkeys(cell.text for cell in missing if cell.method == METHODS[0])]
    # The longest first: so all processes end at about the same time.
    missing.sort(key=lambda cell: cell.method == METHODS[0])
    made = processes.share_out(encoding, place, texts, count)
    done = processes.share_out(working, place, missing, count)
    for _ in console.track(made, "states", total=len(texts)):
        pass  # results are in the cache
    for _ in console.track(done, "runs", total=len(missing)):
        pass


if __name__ == "__main__":
    main()
