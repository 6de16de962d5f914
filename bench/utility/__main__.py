"""What does privacy cost in accuracy? The papers' table, on public tasks, with our backbone.

Adapters are trained on released text and judged on released text, as a tenant's are, by the
product's own trainer and predictor: LoRA and prefix tuning, T2T and PCT2T, at three shares of words
replaced, and on clear text. A killed run goes on where it was. See docs/utility.md.

    python -m bench.utility --quick
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import torch

from bench import console, processes
from bench.console import Figures
from bench.data import require
from bench.utility import tables
from bench.utility.grid import (
    Budget,
    Cell,
    Grid,
    Place,
    grid,
    grid_at_home,
    preparing,
    working,
)
from bench.utility.tasks import TASKS, files
from sottovoce.cloud.models.methods import METHODS
from sottovoce.core.bundle.folder import Bundle

__all__ = ["main"]

QUICK: Final = Budget(train=10_000, brief=1_000, epochs=1)
BRIEF_EPOCHS: Final = 10
"""How often tasks beside SST-2 see their thousand examples where a device is asked too: once is too
seldom to tell two places apart."""
FULL: Final = Budget(train=0, brief=0, epochs=3)


def main() -> None:
    """Run the missing cells, and print the tables."""
    parser = _parser()
    arguments = parser.parse_args()
    bundle = Bundle.open(arguments.bundle)
    require(parser, arguments.data, *files(arguments.tasks))
    gpu = torch.cuda.is_available()
    given = {name: getattr(arguments, name) for name in ("train", "epochs")}
    budget = replace(
        FULL if arguments.full else QUICK, **{k: n for k, n in given.items() if n is not None}
    )
    if arguments.where == "device" and arguments.epochs is None:
        budget = replace(budget, brief_epochs=BRIEF_EPOCHS)
    place = Place(
        bundle=arguments.bundle.resolve(),
        data=arguments.data.resolve(),
        cache=(arguments.out / "cache").resolve(),
        budget=budget,
        at_home=arguments.where == "device",
    )
    all_of = grid_at_home if place.at_home else grid
    cells = [
        cell
        for cell in all_of(arguments.tasks, range(arguments.seeds), arguments.methods)
        if re.search(arguments.only, str(cell))
    ]
    if not cells:
        parser.error("--only matches no run")
    count, began = arguments.processes or (1 if gpu else os.cpu_count() or 1), time.monotonic()
    found = _run(cells, place, count)
    manifest = bundle.manifest
    result: Figures = {
        "backbone": {"name": manifest.backbone.name, "sha256": manifest.backbone.sha256},
        "bundle": bundle.id,
        "mode": "full" if arguments.full else "quick",
        "budget": vars(budget),
        "seeds": arguments.seeds,
        "device": torch.cuda.get_device_name() if gpu else _processor(),
        "processes": count,
        "versions": console.versions("torch", "transformers", "peft", "numpy"),
        "seconds": time.monotonic() - began,
        "rows": tables.rows(found.cells),
        "published": tables.PUBLISHED,
    }
    console.publish(arguments, result, *tables.show(result))


def _parser() -> argparse.ArgumentParser:
    quick = "10,000 phrases, one epoch: 25 minutes on 2 idle cores (default)"
    parser = console.parser("utility", __doc__, quick=quick, data="the tasks")
    parser.add_argument(
        "--full",
        action="store_true",
        help="all phrases, three epochs: for a GPU; on 2 cores it takes days",
    )
    for option, known, default, about in (
        ("--tasks", TASKS, "sst2", ""),
        ("--methods", METHODS, "lora,prefix", "; tasks beside SST-2 get the first"),
    ):
        console.ask_names(parser, option, known, default.split(","), about)
    parser.add_argument(
        "--only",
        default="",
        metavar="PATTERN",
        help="regular expression of runs, which have names like `sst2 lora pct2t.v2 0.45` or"
        " `sst2 lora clear`",
    )
    parser.add_argument(
        "--where",
        choices=("cloud", "device"),
        default="cloud",
        help="device: a device with the adapter classifies the original texts too;"
        " every seed and task under PCT2T alone, 10 epochs of the tasks beside SST-2",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", type=int, help="SST-2 phrases to train on; 0 for all")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--processes", type=int, help="default: one a core, one with a GPU")
    return parser


def _run(cells: Sequence[Cell], place: Place, count: int) -> Grid:
    """Run the missing cells."""
    found = Grid(place, cells)
    sources, missing = found.sources(), found.missing()
    prepared = processes.share_out(preparing, place, sources, count)
    done = processes.share_out(working, place, missing, count)
    for _ in console.track(prepared, "levels", total=len(sources)):
        pass  # results are in the cache
    for _ in console.track(done, "runs", total=len(missing)):
        pass
    return found


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
