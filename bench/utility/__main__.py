"""What does privacy cost in accuracy? The papers' table, on public tasks, with our backbone.

Adapters are trained on released text and judged on released text: LoRA and prefix tuning, T2T and
PCT2T, at three shares of words replaced, with and without reconstruction and the noise-aware input,
and on clear text. A killed run goes on where it was. See docs/utility.md.

    python -m bench.utility --quick
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import replace
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.data import DATA, require
from bench.utility import tables as report
from bench.utility.grid import VARIANTS, Cell, Grid, Place, grid, prepare, start, work
from bench.utility.runs import METHODS, Budget
from bench.utility.tasks import PAPERS, TASKS, files
from sottovoce.core.bundle.folder import Bundle

__all__ = ["main"]

QUICK: Final = Budget(train=10_000, blocks=1, epochs=1, batch_size=32, plain_tokens=40)
FULL: Final = Budget(train=0, blocks=0, epochs=3, batch_size=32, plain_tokens=40)
BRIEF: Final = 1_000
"""Examples of the tasks beside SST-2 in quick mode."""
SEEDS: Final = 3


def main() -> None:
    """Prints the tables and the JSON, writes the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.utility", description=(__doc__ or "").splitlines()[0]
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick",
        action="store_true",
        help="10,000 phrases, one epoch, the last block adapted: 20 minutes on 2 cores (default)",
    )
    size.add_argument(
        "--full",
        action="store_true",
        help="all phrases, three epochs, every block: for a GPU; on 2 cores it takes days",
    )
    parser.add_argument(
        "--tasks",
        default="sst2",
        help=f"comma-separated, of {', '.join(TASKS)}; default: %(default)s",
    )
    parser.add_argument(
        "--methods",
        default="lora,prefix",
        help=f"comma-separated, of {', '.join(METHODS)}; tasks beside SST-2 get the first; default:"
        " %(default)s",
    )
    parser.add_argument(
        "--policies",
        default="default",
        help="which words PCT2T hides, comma-separated: of the bundle's policies, or"
        f" {PAPERS}; from the second on with the first method and seed; default: %(default)s",
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="runs whose description, like `sst2 lora pct2t.v1 default 0.45 plain` or `sst2 lora"
        " clear`, matches this regular expression",
    )
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--data", type=Path, default=DATA, help="the project's data folder")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="picture and cache")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--train", type=int, help="SST-2 phrases to train on; 0 for all")
    parser.add_argument("--blocks", type=int, help="adapt only the last so many; 0 for all")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--processes", type=int, help="default: one a core, one with a GPU")
    arguments = parser.parse_args()
    tasks = arguments.tasks.split(",")
    if unknown := [task for task in tasks if task not in TASKS]:
        parser.error(f"unknown: {', '.join(unknown)}; tasks are {', '.join(TASKS)}")
    methods, policies = arguments.methods.split(","), arguments.policies.split(",")
    if unknown := [method for method in methods if method not in METHODS]:
        parser.error(f"unknown: {', '.join(unknown)}; methods are {', '.join(METHODS)}")
    known = (*Bundle.open(arguments.bundle).manifest.policies, PAPERS)
    if unknown := [policy for policy in policies if policy not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; policies are {', '.join(known)}")
    require(parser, arguments.data, *files(tasks))
    gpu = torch.cuda.is_available()
    budget = _with(FULL if arguments.full else QUICK, arguments)
    if arguments.full and not gpu:
        print("no GPU here: full mode will take days; --quick takes minutes", file=sys.stderr)
    place = Place(
        bundle=arguments.bundle.resolve(),
        data=arguments.data.resolve(),
        cache=(arguments.out / "cache").resolve(),
        budget=budget,
        brief=0 if arguments.full else min(BRIEF, budget.train),
    )
    processes = arguments.processes or (1 if gpu else os.cpu_count() or 1)
    console, began = Console(width=170), time.monotonic()
    variants = VARIANTS if arguments.full else VARIANTS[:3]
    cells = [
        cell
        for cell in grid(tasks, range(arguments.seeds), variants, methods, policies)
        if re.search(arguments.only, str(cell))
    ]
    if not cells:
        parser.error("--only matches no run")
    found = _run(cells, place, processes)
    result = {
        "backbone": found.backbone,
        "bundle": found.bundle,
        "mode": "full" if arguments.full else "quick",
        "budget": vars(budget) | {"other tasks": place.brief},
        "seeds": arguments.seeds,
        "device": torch.cuda.get_device_name() if gpu else _processor(),
        "processes": processes,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("torch", "transformers", "peft", "numpy")},
        },
        "seconds": time.monotonic() - began,
        "rows": report.rows(found.cells),
        "differences": report.differences(found.cells),
        "published": report.PUBLISHED,
    }
    report.show(console, result)
    picture = arguments.out / "utility.png"
    report.plot(result, picture)
    console.print(f"picture: {picture}")
    print(json.dumps(result))


def _with(budget: Budget, arguments: argparse.Namespace) -> Budget:
    given = {name: getattr(arguments, name) for name in ("train", "blocks", "epochs")}
    return replace(budget, **{name: n for name, n in given.items() if n is not None})


def _run(cells: Sequence[Cell], place: Place, processes: int) -> Grid:
    """Runs what has not been run; the progress bar is on standard error."""
    found = Grid(place, cells)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        ProcessPoolExecutor(processes, get_context("spawn"), start, (place,)) as pool,
        Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar,
    ):
        settings = found.settings()
        told = bar.add_task("levels and noise tables", total=len(settings))
        try:
            _follow([pool.submit(prepare, each) for each in settings], bar, told, None)
            told = bar.add_task("runs", total=len(cells))
            _follow([pool.submit(work, unit) for unit in found.units()], bar, told, found)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _follow(waiting: list[Future[Any]], bar: Progress, told: Any, found: Grid | None) -> None:
    """Waits for all; `found` counts what workers have written meanwhile."""
    left = set(waiting)
    while left:
        ended, left = wait(left, timeout=1.0, return_when=FIRST_COMPLETED)
        for each in ended:
            each.result()
        done = len(waiting) - len(left) if found is None else found.done()
        bar.update(told, completed=done)


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (cpu.read_text().splitlines() if cpu.exists() else ())
        if line.startswith("model name")
    ]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
