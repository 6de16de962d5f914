"""How many requests a second do many adapters answer on one machine, and how long does each take?

Three ways to serve 1, 8, 32 and 64 LoRA adapters of rank 8 on the default backbone. All use the
same cores, the same texts (SST-2's held-out sentences) and the same number of requests in flight:

    shared      one forward pass for rows of all adapters: `sotto-cloud serve`
    switching   PEFT's `set_adapter` and one request at a time
    processes   a process with a separate model for each adapter, up to the memory limit

Rounds of all sides follow each other in one run. Figures are medians over rounds. A gain is the
median of the rounds' ratios.

    python -m bench.serving --quick
"""

from __future__ import annotations

import argparse
import itertools
import platform
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from bench import console
from bench.console import Figures, Table, table
from bench.data import messages, rows
from bench.speed.serving_sides import (
    Processes,
    Run,
    Shared,
    Side,
    Switching,
    drive,
    make_adapters,
    on_cores,
    percentile,
    precisions,
)

COUNTS = (1, 8, 32, 64)
IN_FLIGHT = 64
TOLERANCE = 1e-4
SIDES = ("shared", "switching", "processes")


def sentences(data: Path) -> tuple[str, list[str]]:
    """Return the source of the texts, and the texts: SST-2's held-out part, else the example."""
    file = data / "sst2" / "dev.tsv.gz"
    if not file.exists():
        return "helpdesk", messages()
    return "sst2 dev", [row["text"] for row in rows(file)]


def load(texts: Sequence[str], streams: int, requests: int, start: int = 0) -> list[list[str]]:
    """Distribute ``requests`` texts over the streams."""
    turn = list(itertools.islice(itertools.cycle(texts), start, start + requests))
    return [turn[stream::streams] for stream in range(streams)]


def summary(runs: Sequence[Run]) -> Figures:
    """Return medians over rounds: requests a second, milliseconds."""
    figures: Figures = {"requests_per_second": statistics.median(run.rate for run in runs)}
    for share in (0.5, 0.95, 0.99):
        figures[f"p{round(100 * share)}_ms"] = statistics.median(
            percentile(list(itertools.chain(*run.latencies)), share) for run in runs
        )
    return figures


def compare(
    folders: Sequence[Path], texts: Sequence[str], options: argparse.Namespace, precision: str
) -> Figures:
    """Compare all sides with this number of adapters; `processes` only up to its memory limit."""
    count = len(folders)
    sides: dict[str, Side] = {}
    shared = sides["shared"] = Shared(folders, precision)
    switching = sides["switching"] = Switching(folders, precision)
    processes = None
    if count <= options.processes:
        processes = sides["processes"] = Processes(folders, precision, options.threads)
    if precision == "float32":
        check_alike(shared, switching, texts)
    window = max(1, IN_FLIGHT // count)
    runs: dict[str, list[Run]] = {name: [] for name in sides}
    for side in sides.values():
        drive(side.submit, load(texts, count, max(count, 16)), window)  # warm
    for number in range(options.rounds):
        streams = load(texts, count, options.requests, number * options.requests)
        for name, side in sides.items():
            runs[name].append(drive(side.submit, streams, window))
    figures: Figures = {"adapters": count, "precision": precision, "in_flight": window * count}
    figures |= {name: summary(found) for name, found in runs.items()}
    if processes is not None:
        figures["processes"]["private_bytes_each"] = statistics.median(processes.bytes)
    for other in SIDES[1:]:
        if other in runs:
            pairs = zip(runs["shared"], runs[other], strict=True)
            figures[f"times_{other}"] = statistics.median(a.rate / b.rate for a, b in pairs)
    for side in sides.values():
        side.close()
    return figures


def check_alike(shared: Shared, switching: Switching, texts: Sequence[str]) -> None:
    """Check that the sides give the same answers; otherwise the comparison is void."""
    count = len(switching.heads)
    asked = [(number % count, text) for number, text in enumerate(texts[:24])]
    waiting = [shared.submit(*request) for request in asked]
    for request, answer in zip(asked, waiting, strict=True):
        scores = dict(answer.result())
        expected = switching.answer(*request).softmax(-1).tolist()
        found = [scores["negative"], scores["positive"]]
        if max(abs(a - b) for a, b in zip(found, expected, strict=True)) > TOLERANCE:
            raise SystemExit("the shared batch and the single adapter do not agree")


def show(figures: Figures) -> Table:
    """Return a row for each side."""
    return table(
        f"LoRA adapters on {figures['cores']} core(s), medians of rounds",
        ("side", "numbers"),
        ("adapters", "requests/s", "p50 ms", "p95 ms", "p99 ms", "shared is"),
        (
            (
                side,
                row["precision"],
                row["adapters"],
                f"{row[side]['requests_per_second']:,.1f}",
                *(f"{row[side][f'p{p}_ms']:,.1f}" for p in (50, 95, 99)),
                f"{row[f'times_{side}']:.1f} x" if f"times_{side}" in row else "",
            )
            for row in figures["compared"]
            for side in SIDES
            if side in row
        ),
    )


def main() -> None:
    """Run the rounds, and print the tables."""
    parser = console.parser(
        "serving", __doc__, quick="fewer requests and rounds", data="sst2/dev.tsv.gz"
    )
    parser.add_argument("--threads", type=int, default=1, help="threads and cores of a side")
    parser.add_argument("--rounds", type=int, help="default 5, quick 3")
    parser.add_argument("--requests", type=int, help="requests of a round; default 512, quick 128")
    parser.add_argument("--processes", type=int, help="most processes; default 32, quick 8")
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="numbers of adapters")
    options = parser.parse_args()
    quick = (3, 128, 8) if options.quick else (5, 512, 32)
    for name, value in zip(("rounds", "requests", "processes"), quick, strict=True):
        setattr(options, name, getattr(options, name) or value)
    torch.set_num_threads(options.threads)
    source, texts = sentences(options.data)
    figures: Figures = {
        "texts": source,
        "cores": options.threads,
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "machine": platform.machine(),
        "versions": console.versions("torch", "transformers", "peft"),
        "compared": [],
    }
    with tempfile.TemporaryDirectory() as root, on_cores(options.threads):
        folders = make_adapters(Path(root), max(options.counts))
        for count, precision in itertools.product(options.counts, precisions()):
            console.STEPS.print(f"{count} adapters, {precision}")
            figures["compared"].append(compare(folders[:count], texts, options, precision))
    console.publish(options, figures, show(figures))


if __name__ == "__main__":
    main()
