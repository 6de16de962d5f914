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
from typing import Final

from bench import console, processes
from bench.console import Figures
from bench.data import require
from bench.private_prompts import tables
from bench.private_prompts.runs import CLEAR, Cell, Place, Text, encoding, result, working
from bench.utility.tasks import files

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
        "rows": tables.rows(found),
        "published": tables.PUBLISHED,
    }
    console.publish(arguments, figures, *tables.show(figures))


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
