"""Attacks both sides at random, and says what held: ``python -m tests.campaign``.

Every trial draws from its number and the seed alone, so that each can be shown again.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from tests.campaign.parts import PARTS, run
from tests.campaign.tally import FAULTS, table


def main() -> int:
    """The exit code: 1 if anything was lost, leaked, crossed or unexplained."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="drawn where none is given")
    parser.add_argument("--trial", type=int, help="this one alone")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials of each part")
    parser.add_argument("--minutes", type=float, help="for each part, instead of its trials")
    given = parser.parse_args()
    if unknown := set(given.part) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(f"seed {given.seed}", flush=True)
    tallies = {}
    for name in given.part or PARTS:
        if lacking := PARTS[name].missing():
            print(f"{name} is left out: {lacking}", flush=True)
            continue
        part = PARTS[name]
        trials: Iterable[int] = range(max(1, round(part.full * given.share)))
        if given.minutes is not None or part.minutes:
            trials = _for_minutes(given.minutes or part.minutes * given.share)
        if given.trial is not None:
            trials = range(given.trial, given.trial + 1)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
            tallies[name] = tally = run(name, Path(folder), given.seed, trials)
        tally.seconds = time.monotonic() - began
        for finding in tally.findings:
            print(finding, flush=True)
    print(table([*tallies.values()]))
    figures = {name: tally.to_dict() for name, tally in tallies.items()}
    print(json.dumps({"seed": given.seed, "parts": figures}))
    return int(any(tally.faults[kind] for tally in tallies.values() for kind in FAULTS))


def _for_minutes(minutes: float) -> Iterator[int]:
    """Numbers of trials until the time is over; one at least."""
    end = time.monotonic() + 60 * minutes
    for number in count():
        yield number
        if time.monotonic() > end:
            return


if __name__ == "__main__":
    sys.exit(main())
