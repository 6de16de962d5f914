"""What does a strong attacker recover at each protection level, and what does the level cost?

Attacks on released words and on noisy vectors, from the papers' nearest neighbour to maximum a
posteriori over whole sentences; averaging, attribute inference and entities. Every attack is first
shown to work where nothing is hidden. See docs/attacks.md.

    python -m bench.attacks --quick
    python -m bench.attacks --quick --levels attack:0.3 --mechanisms pct2t.v1,t2t.v1
    python -m bench.attacks --only membership --quick
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from itertools import product

from bench import console
from bench.attacks import membership, report
from bench.attacks.harness import FULL, MECHANISMS, QUICK, Budget
from bench.attacks.run import ALL, DATA_SETS, Place, Scope, measure
from bench.data import require
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import SottovoceError
from sottovoce.core.privacy.policies import LEVELS


def main() -> None:
    """Prints the tables, and keeps the figures."""
    alone = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    alone.add_argument("--only")
    only, rest = alone.parse_known_args()
    if only.only == "membership":
        membership.main(rest)
        return
    quick = "less of everything: about 15 minutes on 2 idle cores"
    parser = console.parser("attacks", __doc__, quick=quick, models=True, data="the data sets")
    parser.add_argument(
        "--mechanisms",
        type=console.names(MECHANISMS),
        metavar="NAMES",
        help=f"mechanisms, comma-separated, of {', '.join(MECHANISMS)}; leaves out the attacks on"
        " tokens, on people and on repeats",
    )
    parser.add_argument(
        "--levels",
        type=console.names(),
        metavar="NAMES",
        help="levels to attack, also attack:0.3; leaves out the same attacks",
    )
    parser.add_argument(
        "--only",
        choices=["membership"],
        help="the membership attack, which attacks adapters instead of "
        "releases, and takes further options: --only membership --help",
    )
    parser.add_argument("--sentences", type=int, help="sentences to attack, at most 1,500")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="processes of 1 GiB each"
    )
    arguments = parser.parse_args()
    require(parser, arguments.data, *DATA_SETS)
    budget, scope = _asked(arguments)
    place = Place(arguments.bundle, arguments.models, arguments.data, budget)
    manifest = Bundle.open(arguments.bundle).manifest
    try:
        for mechanism, level in product(scope.mechanisms, scope.levels):
            manifest.level(mechanism, level)
    except SottovoceError as error:
        parser.error(f"--levels: {error}")
    result = measure(place, scope, arguments.processes) | {"quick": arguments.quick}
    if scope is not ALL:
        arguments.name = "attacks-part"  # the figures of the whole stay
    console.publish(arguments, result, *report.tables(result), report.worked(result))


def _asked(arguments: argparse.Namespace) -> tuple[Budget, Scope]:
    budget = QUICK if arguments.quick else FULL
    if arguments.sentences:
        budget = replace(budget, sentences=arguments.sentences)
    names, levels = arguments.mechanisms, arguments.levels
    if not names and not levels:
        return budget, ALL
    return budget, Scope(names or MECHANISMS, levels or LEVELS, rest=False)


if __name__ == "__main__":
    main()
