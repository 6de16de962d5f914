"""What does a strong attacker recover at each protection level, and what does the level cost?

Attacks on released words and on noisy vectors, from the papers' nearest neighbour to maximum a
posteriori over whole sentences; networks, averaging, attribute inference and entities; the same on
other people's mechanisms at the same share of words kept. Every attack is first shown to work where
nothing is hidden. See docs/attacks.md.

    python -m bench.attacks --quick
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bench.attacks import people, report
from bench.attacks.channels import CLEAR, Public, Words
from bench.attacks.entities import read_entities
from bench.attacks.harness import FULL, MECHANISMS, QUICK, Harness, Row
from bench.attacks.utility import Sentiment
from bench.data import DATA, require
from sottovoce.edge.bundle import Bundle
from sottovoce.edge.release import Setting


def main() -> None:
    """Prints the tables and the JSON, writes the picture."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.attacks", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: 15 minutes")
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--data", type=Path, default=DATA, help="the project's data folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--baselines-at", default="balanced", help="level whose words they keep")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="folder of the PNG")
    arguments = parser.parse_args()
    require(parser, arguments.data, "ud_gum", "ud_ewt", "wnut17", "blogs")
    torch.set_num_threads(arguments.threads)
    start = time.monotonic()

    def tell(stage: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {stage}", file=sys.stderr, flush=True)

    tell("reading")
    budget, data = QUICK if arguments.quick else FULL, arguments.data
    public = Public.of(Bundle.open(arguments.bundle), arguments.models)
    harness = Harness(public, data, budget, tell)
    sentiment = None
    if (data / "sst2").is_dir():
        sentiment = Sentiment.read(data / "sst2", public, budget.reviews)
    rows, measured = [], []
    clear = harness.clear()
    for mechanism in MECHANISMS:
        for level in harness.levels:
            channel = Words(public, Setting(level, mechanism))
            found, releases = harness.on_words(channel)
            rows += found + harness.on_vectors(channel)
            measured.append(harness.mechanism_measures(channel, releases, sentiment))
    rows += harness.on_tokens()
    for level in harness.levels:
        rows += harness.averaging(level)
    settings = [CLEAR, *(Setting(level) for level in harness.levels)]
    for found in (
        people.entities(public, data, budget.messages, settings, tell),
        people.attributes(public, data, budget.posts, settings, tell),
    ):
        clear += [row for row in found if row["level"] == CLEAR.level]
        rows += [row for row in found if row["level"] != CLEAR.level]
    for make in harness.baselines(arguments.baselines_at):
        tell("preparing a baseline")
        baseline = make()
        found, releases = harness.on_words(baseline, networks=0)
        rows += found
        measured.append(harness.mechanism_measures(baseline, releases, sentiment))
    tell("PII scrubbing")
    train = read_entities(data / "wnut17" / "train.jsonl.gz", budget.messages)
    scrubber = harness.scrubber(people.recogniser(public, train))
    found, releases = harness.on_words(scrubber, networks=0)
    rows += found
    measured.append(harness.mechanism_measures(scrubber, releases, sentiment))
    result: dict[str, Any] = {
        "bundle": public.bundle.id,
        "quick": arguments.quick,
        "rows": rows,
        "clear": {"rows": clear, "failed": failed(clear, rows)},
        "measures": {
            "strongest": report.strongest(rows),
            "mechanisms": measured,
            "accuracy_clear": sentiment.accuracy(Words(public, CLEAR).release)
            if sentiment
            else None,
            "parts_of_speech": harness.parts_of_speech(arguments.baselines_at, sentiment),
        },
        "seconds": time.monotonic() - start,
    }
    picture = arguments.out / "attacks.png"
    report.plot(result, picture)
    console = Console(width=160)
    report.show(console, result)
    console.print(f"picture: {picture}")
    print(json.dumps(result))


def failed(clear: list[Row], rows: list[Row]) -> list[str]:
    """Attacks that do not reach, where nothing is hidden, what their definition implies: whose
    failure elsewhere would prove nothing."""
    names = []
    for row in clear:
        if row["attack"] == "NER, F1":
            works = row["success"] > 0.3
        elif "majority" in row:
            works = row["ci"][0] > row["majority"]
        else:
            works = row["success"] > 0.95
        if not works:
            names.append(f"{row['attack']} ({row['sees']})")
    averaged = {(row["level"], row["attack"]): row for row in rows if "memo" in row["attack"]}
    for (level, name), row in averaged.items():
        with_memo = averaged[level, name.replace("memo off", "memo on")]
        if row is not with_memo and row["ci"][0] <= with_memo["ci"][1]:
            names.append(f"averaging at {level}")
    return names


if __name__ == "__main__":
    main()
