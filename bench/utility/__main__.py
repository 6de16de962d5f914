"""What does privacy cost in accuracy? The papers' table, on public tasks, with our backbone.

Adapters are trained on released text and judged on released text: LoRA and prefix tuning, T2T and
PCT2T, at three shares of words replaced, with and without reconstruction and the noise-aware input,
and on clear text. A killed run goes on where it was. See docs/utility.md.

    python -m bench.utility --quick
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from bench import console, processes
from bench.console import Figures
from bench.data import require
from bench.utility import tables
from bench.utility.grid import VARIANTS, Cell, Grid, Place, grid, prepare, start, work
from bench.utility.runs import METHODS, Budget
from bench.utility.tasks import PAPERS, TASKS, files
from sottovoce.core.bundle.folder import Bundle

__all__ = ["main"]

QUICK: Final = Budget(train=10_000, blocks=1, epochs=1, batch_size=32, plain_tokens=40)
FULL: Final = Budget(train=0, blocks=0, epochs=3, batch_size=32, plain_tokens=40)
BRIEF: Final = 1_000
"""Examples of the tasks beside SST-2 in quick mode."""


def main() -> None:
    """Runs what has not been run, and prints the tables."""
    parser = _parser()
    arguments = parser.parse_args()
    policies = (*Bundle.open(arguments.bundle).manifest.policies, PAPERS)
    for what, known in (("tasks", TASKS), ("methods", METHODS), ("policies", policies)):
        if unknown := [name for name in getattr(arguments, what) if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; {what} are {', '.join(known)}")
    require(parser, arguments.data, *files(arguments.tasks))
    gpu = torch.cuda.is_available()
    given = {name: getattr(arguments, name) for name in ("train", "blocks", "epochs")}
    budget = replace(
        FULL if arguments.full else QUICK, **{k: n for k, n in given.items() if n is not None}
    )
    place = Place(
        bundle=arguments.bundle.resolve(),
        data=arguments.data.resolve(),
        cache=(arguments.out / "cache").resolve(),
        budget=budget,
        brief=0 if arguments.full else min(BRIEF, budget.train),
    )
    variants = VARIANTS if arguments.full else VARIANTS[:3]
    seeds = range(arguments.seeds)
    cells = [
        cell
        for cell in grid(arguments.tasks, seeds, variants, arguments.methods, arguments.policies)
        if re.search(arguments.only, str(cell))
    ]
    if not cells:
        parser.error("--only matches no run")
    count, began = arguments.processes or (1 if gpu else os.cpu_count() or 1), time.monotonic()
    found = _run(cells, place, count)
    result: Figures = {
        "backbone": found.backbone,
        "bundle": found.bundle,
        "mode": "full" if arguments.full else "quick",
        "budget": vars(budget) | {"other tasks": place.brief},
        "seeds": arguments.seeds,
        "device": torch.cuda.get_device_name() if gpu else _processor(),
        "processes": count,
        "versions": console.versions("torch", "transformers", "peft", "numpy"),
        "seconds": time.monotonic() - began,
        "rows": tables.rows(found.cells),
        "differences": tables.differences(found.cells),
        "published": tables.PUBLISHED,
    }
    console.publish(arguments, result, *tables.show(result), picture=tables.plot(result))


def _parser() -> argparse.ArgumentParser:
    quick = "10,000 phrases, one epoch, the last block: 20 minutes on 2 cores (default)"
    parser = console.parser("utility", __doc__, quick=quick, data="the tasks")
    parser.add_argument(
        "--full",
        action="store_true",
        help="all phrases, three epochs, every block: for a GPU; on 2 cores it takes days",
    )
    for name, default, known in (
        ("tasks", "sst2", f"of {', '.join(TASKS)}"),
        ("methods", "lora,prefix", f"of {', '.join(METHODS)}; tasks beside SST-2 get the first"),
        ("policies", "default", f"which words PCT2T hides: of the bundle's, or {PAPERS}; from the"
         " second on with the first method and seed"),
    ):  # fmt: skip
        parser.add_argument(
            f"--{name}",
            type=console.comma_separated,
            default=console.comma_separated(default),
            metavar="NAMES",
            help=f"comma-separated, {known}; default: {default}",
        )
    parser.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="runs whose description, like `sst2 lora pct2t.v1 default 0.45 plain` or `sst2 lora"
        " clear`, matches this regular expression",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, help="SST-2 phrases to train on; 0 for all")
    parser.add_argument("--blocks", type=int, help="adapt only the last so many; 0 for all")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--processes", type=int, help="default: one a core, one with a GPU")
    return parser


def _run(cells: Sequence[Cell], place: Place, count: int) -> Grid:
    """Runs what is missing."""
    found = Grid(place, cells)

    def prepared() -> Iterator[int]:
        for _ in processes.share_out(prepare, found.settings(), count, start, place):
            yield 1

    def worked() -> Iterator[int]:
        for unit, _ in processes.share_out(work, found.units(), count, start, place):
            yield len(unit)

    with console.progress() as bar:
        for what, done, total in (
            ("levels and noise tables", prepared, len(found.settings())),
            ("runs", worked, sum(map(len, found.units()))),
        ):
            told = bar.add_task(what, total=total)
            for n in done():
                bar.advance(told, n)
    return found


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
