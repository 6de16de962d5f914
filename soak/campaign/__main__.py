"""Attacks both sides at random, and says what held: ``python -m soak.campaign``.

Every trial draws from its number and the seed alone, so that each can be shown again.
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
    """The exit code: 1 if anything was lost, leaked, crossed or unexplained."""
    parser = argparse.ArgumentParser(prog="python -m soak.campaign", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="drawn where none is given")
    parser.add_argument("--trial", type=int, help="this one alone")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of each part")
    parser.add_argument("--minutes", type=float, help="for each part, instead of its trials")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time; as many cores")
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
