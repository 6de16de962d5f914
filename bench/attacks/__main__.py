"""What does a strong attacker recover at each protection level, and what does the level cost?

Attacks on released words and on noisy vectors, from the papers' nearest neighbour to maximum a
posteriori over whole sentences; networks, averaging, attribute inference and entities; the same on
other people's mechanisms; and which of them keeps more where both lose the same. Every attack is
first shown to work where nothing is hidden. See docs/attacks.md.

    python -m bench.attacks --quick
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from rich.console import Console

from bench.attacks import report
from bench.attacks.harness import FULL, QUICK
from bench.attacks.run import DATA_SETS, clock, measure
from bench.data import DATA, require


def main() -> None:
    """Prints the tables and the JSON, writes the JSON and the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.attacks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: 15 minutes")
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=DATA, help="the project's data folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of the files")
    arguments = parser.parse_args()
    require(parser, arguments.data, *DATA_SETS)
    torch.set_num_threads(arguments.threads)
    budget = QUICK if arguments.quick else FULL
    result = measure(arguments.bundle, arguments.models, arguments.data, budget, clock())
    result["quick"] = arguments.quick
    picture = arguments.out / "attacks.png"
    report.plot(result, picture)
    (arguments.out / "attacks.json").write_text(json.dumps(result), encoding="utf-8")
    console = Console(width=160)
    report.show(console, result)
    console.print(f"picture: {picture}; the figures as a page: python -m bench.report")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
