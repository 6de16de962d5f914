"""Attack both sides at random, and report the faults: ``python -m soak.campaign``.

Every trial draws from its number and the seed alone, so each can be repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys

from soak.campaign.parts import PARTS
from soak.campaign.pool import pieces, together
from soak.campaign.tally import FAULTS, table


def main() -> int:
    """Return the exit code: 1 if any trial ended with one of `FAULTS`."""
    parser = argparse.ArgumentParser(prog="python -m soak.campaign", description=__doc__)
    parser.add_argument(
        "part", nargs="*", help=f"parts to run, of {', '.join(PARTS)}; default: all"
    )
    parser.add_argument("--seed", default=secrets.token_hex(4), help="default: a random one")
    parser.add_argument("--trial", type=int, help="number of the one trial to run")
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of each part's trials to run"
    )
    parser.add_argument(
        "--minutes", type=float, help="run each part for this long, instead of its trials"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count(), help="parallel processes; default: one a core"
    )
    given = parser.parse_args()
    if unknown := set(given.part) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(f"seed {given.seed}", flush=True)
    todo = []
    for name in given.part or PARTS:
        if lacking := PARTS[name].missing():
            print(f"{name} is left out: {lacking}", flush=True)
        else:
            todo += pieces(name, given.share, given.minutes, given.trial)
    tallies = together(todo, given.seed, given.jobs)
    print(table([*tallies.values()]))
    figures = {name: tally.to_dict() for name, tally in tallies.items()}
    print(json.dumps({"seed": given.seed, "parts": figures}))
    return int(any(tally.faults[kind] for tally in tallies.values() for kind in FAULTS))


if __name__ == "__main__":
    sys.exit(main())
