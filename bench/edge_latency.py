"""How long does the device take to privatise a text, and what does the graph buy?

Text to text, one thread, in one process: documents of 10 to 10,000 words, the bundle
as built (HNSW where the builder chose it) interleaved with exact search throughout;
medians, and the ratio of each pair. Also peak memory of this process.

    python -m bench.edge_latency --json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import statistics
import time
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from sottovoce.edge.bundle import Bundle
from sottovoce.edge.privatizer import Privatizer, Setting
from sottovoce.edge.tagger import OnnxTagger

SIZES = (10, 100, 1_000, 10_000)
MESSAGES = Path(__file__).parents[1] / "examples" / "helpdesk" / "train.tsv"


def exact(bundle: Bundle) -> Bundle:
    """The same bundle with every graph left out, so that search is exact."""
    classes = {
        name: dataclasses.replace(stored, index=None)
        for name, stored in bundle.manifest.classes.items()
    }
    return Bundle(bundle.folder, dataclasses.replace(bundle.manifest, classes=classes), bundle.id)


def document(words: int) -> str:
    """Real messages, repeated to the length asked for."""
    lines = MESSAGES.read_text(encoding="utf-8").splitlines()[1:]
    running = " ".join(line.split("\t")[0] for line in lines).split()
    return " ".join((running * (words // len(running) + 1))[:words])


def milliseconds(privatizer: Privatizer, text: str, setting: Setting) -> float:
    """One release, by the wall clock."""
    start = time.perf_counter()
    privatizer.release(text, setting)
    return (time.perf_counter() - start) * 1e3


def main() -> None:
    """Prints a table and the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--level", default="balanced")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    bundle = Bundle.open(arguments.bundle)
    setting = Setting(level=arguments.level)
    sides = {
        "built": Privatizer(bundle, OnnxTagger.load(bundle.tagger_folder)),
        "exact": Privatizer(exact(bundle), OnnxTagger.load(bundle.tagger_folder)),
    }
    rows = []
    err = Console(stderr=True)
    for size in track(SIZES, "measuring", console=err, disable=arguments.json):
        text = document(size)
        times: dict[str, list[float]] = {name: [] for name in sides}
        for repeat in range(arguments.repeats + 1):
            for name, privatizer in sides.items():
                taken = milliseconds(privatizer, text, setting)
                if repeat:  # the first round opens indexes
                    times[name].append(taken)
        pairs = zip(times["exact"], times["built"], strict=True)
        rows.append(
            {
                "words": size,
                "built_ms": round(statistics.median(times["built"]), 3),
                "exact_ms": round(statistics.median(times["exact"]), 3),
                "exact_over_built": round(statistics.median(e / b for e, b in pairs), 3),
            }
        )
    figures = {
        "bundle": bundle.id,
        "level": arguments.level,
        "documents": rows,
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    if not arguments.json:
        table = Table(title=f"text to text, {arguments.level}, medians of {arguments.repeats}")
        for heading in rows[0]:
            table.add_column(heading.replace("_", " "), justify="right")
        for row in rows:
            table.add_row(*(f"{value:,}" for value in row.values()))
        err.print(table)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
