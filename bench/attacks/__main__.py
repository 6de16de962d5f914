"""What does a strong attacker recover at each protection level, and what does the level cost?

Attacks on released words and on noisy vectors, from the papers' nearest neighbour to maximum a
posteriori over whole sentences; networks, averaging, attribute inference and entities; the same on
other people's mechanisms; and which of them keeps more where both lose the same. Every attack is
first shown to work where nothing is hidden. See docs/attacks.md.

    python -m bench.attacks --quick
    python -m bench.attacks --quick --levels attack:0.3 --mechanisms pct2t.v1,t2t.v1
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path

from rich.console import Console

from bench.attacks import report
from bench.attacks.harness import FULL, MECHANISMS, QUICK, Budget
from bench.attacks.parts import ALL, BASELINES, Scope
from bench.attacks.run import DATA_SETS, measure
from bench.attacks.workers import Place
from bench.data import DATA, require
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import SottovoceError


def main() -> None:
    """Prints the tables and the JSON, writes the JSON and the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.attacks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="less of everything: about 15 minutes on 2 idle cores",
    )
    parser.add_argument(
        "--mechanisms",
        type=_listed,
        metavar="NAMES",
        help=f"only these, comma-separated, of {', '.join((*MECHANISMS, *BASELINES))}; leaves out"
        " the attacks by networks, on tokens, on people and on repeats",
    )
    parser.add_argument(
        "--levels",
        type=_listed,
        metavar="NAMES",
        help="only these, attack:0.3 among them; leaves out the same, baselines too unless named",
    )
    parser.add_argument("--sentences", type=int, help="of the attacked text; 1,500 at most")
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=DATA, help="the project's data folder")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count(),
        help="of about 1 GiB each; default: one a core",
    )
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of the files")
    arguments = parser.parse_args()
    require(parser, arguments.data, *DATA_SETS)
    budget, scope = _asked(parser, arguments)
    place = Place(arguments.bundle, arguments.models, arguments.data, budget)
    manifest = Bundle.open(arguments.bundle).manifest
    try:
        for mechanism, level in product(scope.mechanisms or MECHANISMS, scope.levels):
            manifest.level(mechanism, level)
    except SottovoceError as error:
        parser.error(f"--levels: {error}")
    result = measure(place, scope, arguments.processes)
    result["quick"] = arguments.quick
    name = "attacks" if scope is ALL else "attacks-part"  # the page is made of the whole
    picture = arguments.out / f"{name}.png"
    report.plot(result, picture)
    (arguments.out / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
    console = Console(width=160)
    report.show(console, result)
    console.print(f"picture: {picture}; the figures as a page: python -m bench.report")
    print(json.dumps(result))


def _listed(names: str) -> tuple[str, ...]:
    return tuple(names.split(","))


def _asked(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> tuple[Budget, Scope]:
    budget = QUICK if arguments.quick else FULL
    if arguments.sentences:
        budget = replace(budget, sentences=arguments.sentences)
    names, levels = arguments.mechanisms, arguments.levels
    if not names and not levels:
        return budget, ALL
    known = (*MECHANISMS, *BASELINES)
    if unknown := [name for name in names or () if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; mechanisms are {', '.join(known)}")
    names = names or MECHANISMS
    scope = Scope(
        mechanisms=tuple(name for name in MECHANISMS if name in names),
        baselines=tuple(name for name in BASELINES if name in names),
        levels=levels or (),
        tags=(),
        rest=False,
    )
    return replace(budget, steps=0), scope


if __name__ == "__main__":
    main()
