"""When is a graph worth its misses, and how does search grow with the word list?

Exact search and HNSW graphs answer the same noisy queries on one thread, taking turns; times are
medians, in microseconds a query, by how many queries come at once. First over the classes of a
bundle as built, then over all its words and ever more invented ones, drawn with the mean and the
covariance of the real. Recall is the share of queries whose nearest word the graph finds; "kept"
the share of words released as they were, graph minus exact search, in points.

    python -m bench.speed.search
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from sottovoce.cloud.building.indexes import (
    BATCHES,
    Measured,
    Queries,
    draw_queries,
    empty_graph,
    measured_graph,
    microseconds,
)
from sottovoce.cloud.corpus import frequencies
from sottovoce.cloud.corpus.running_text import counts_by_tag, weights_by_class
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.privacy.search import ExactIndex
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.core.text.tagger import UPOS

SIZES = (50_000, 100_000, 200_000, 400_000)
AT_ONCE = (*BATCHES, 1_000)
FEWEST = 256
"""Classes smaller than this never get a graph."""

Figures = dict[str, Any]


def main() -> None:
    """Prints three tables and, last, the JSON; writes the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bundle", type=Path, default=Path("build/bundle"))
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="of the picture")
    parser.add_argument("--quick", action="store_true", help="up to 100,000 words only")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    bundle = Bundle.open(arguments.bundle)
    weights = met(bundle, arguments.models)
    sizes = [size for size in SIZES if size <= 100_000 or not arguments.quick]
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "graph"
        names = [n for n, c in bundle.manifest.classes.items() if c.words >= FEWEST]
        classes = [
            of_class(bundle, name, weights[name], graph)
            for name in track(names, "classes", console=console)
        ]
        rounds = track(
            grown(bundle, weights[ANY], sizes, graph),
            "word lists",
            total=len(sizes) + 1,
            console=console,
        )
        lists = list(rounds)
    figures = {
        "bundle": bundle.id,
        "dimensions": bundle.manifest.dimensions,
        "classes": classes,
        "lists": lists,
        "crossover_words": crossovers(lists),
    }
    show(figures, Console(width=132))
    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(figures, arguments.out / "search.png")
    print(json.dumps(figures))


def met(bundle: Bundle, models: Path) -> dict[str, NDArray[np.float64]]:
    """How often each word of each class is met in running text: Floats1d (members,) by class."""
    words = list(bundle.words)
    clitic = np.isin(words, bundle.manifest.clitics)
    counts = counts_by_tag(words, clitic, frequencies.load(models / "frequencies"))
    by_class = weights_by_class(counts, clitic, UPOS) | weights_by_class(counts, clitic, None)
    never = np.zeros(len(words))
    return {
        name: by_class.get(name, never)[bundle.class_members(name)]
        for name in bundle.manifest.classes
    }


def of_class(bundle: Bundle, name: str, weights: NDArray[np.float64], file: Path) -> Figures:
    """One class of the bundle: how it is searched as built, and what a graph would do."""
    rows, stored = np.asarray(bundle.class_rows(name)), bundle.manifest.classes[name]
    graph = empty_graph(len(rows), rows.shape[1])
    graph.add_items(rows)
    graph.save_index(str(file))
    queries = draw_queries(rows, weights, etas(bundle, stored.recall))
    return {
        "class": name,
        "words": stored.words,
        "built": "exact" if stored.index is None else "graph",
        "built_recall": stored.recall,
        "built_kept_difference": stored.kept_difference,
        **compared(rows, queries, file),
    }


def grown(
    bundle: Bundle, weights: NDArray[np.float64], sizes: Sequence[int], file: Path
) -> Iterator[Figures]:
    """The list of all words, then with invented ones up to each of ``sizes``.

    Words are only ever added, and to one graph, so that the time to build each is a part of the
    time to build the largest.
    """
    real = np.asarray(bundle.class_rows(ANY))
    levels = etas(bundle, bundle.manifest.classes[ANY].recall)
    levels = {name: eta for name, eta in levels.items() if name.startswith("t2t")}
    rows = np.concatenate([real, invented(real, max(0, max(sizes) - len(real)))])
    graph = empty_graph(len(rows), rows.shape[1])
    seconds = 0.0
    for size in (len(real), *sizes):
        start = time.thread_time()
        graph.add_items(rows[graph.get_current_count() : size])
        seconds += time.thread_time() - start
        graph.save_index(str(file))
        padded = np.zeros(size)
        padded[: len(real)] = weights
        queries = draw_queries(rows[:size], padded, levels, 1_000)
        yield {
            "words": size,
            "build_seconds": round(seconds, 1),
            "exact_mb": round(rows[:size].nbytes / 1e6, 1),
            "graph_mb": round(file.stat().st_size / 1e6, 1),
            **compared(rows[:size], queries, file),
            "at_level": {
                level: compared(rows[:size], {level: queries[level]}, file, (1, 1_000))
                for level in queries
            },
        }


def invented(real: Floats2d, n: int) -> Floats2d:
    """``n`` further rows of length 1: normal with the mean and covariance of ``real``."""
    random = np.random.default_rng(0)
    spread = np.linalg.cholesky(np.cov(real.T.astype(np.float64)))
    drawn = random.standard_normal((n, real.shape[1])) @ spread.T + real.mean(axis=0)
    return unit_rows(drawn)


def etas(bundle: Bundle, levels: Sequence[str] | Figures) -> dict[str, float]:
    """By "mechanism/level"."""
    return {name: bundle.manifest.level(*name.split("/")).eta for name in levels}


def compared(
    rows: Floats2d, queries: Queries, file: Path, at_once: Sequence[int] = AT_ONCE
) -> Figures:
    """The graph in ``file``, at the least effort these queries take, against exact search."""
    exact = ExactIndex(rows)
    graph = measured_graph(file, exact, queries, len(rows))
    noisy = np.concatenate([noisy for _, noisy in queries.values()])
    noisy = noisy[np.random.default_rng(0).permutation(len(noisy))[: max(at_once)]]
    taken = {n: microseconds((exact, graph.search), noisy[: max(n, 200)], n) for n in at_once}
    return {
        **described(graph),
        "exact_us": {str(n): round(times[0], 2) for n, times in taken.items()},
        "graph_us": {str(n): round(times[1], 2) for n, times in taken.items()},
    }


def described(graph: Measured) -> Figures:
    """What a graph found, by level."""
    return {
        "ef": graph.effort,
        "suffices": graph.suffices,
        "recall": {level: round(share, 4) for level, share in graph.recall.items()},
        "kept_difference": {level: round(d, 4) for level, d in graph.kept_difference.items()},
    }


def crossovers(lists: Sequence[Figures]) -> dict[str, float | None]:
    """Words from which a graph is faster: by how many queries at once, at all levels or at one."""
    found = {f"{n} at once, all levels": crossover(lists, (n,)) for n in AT_ONCE}
    found["1.5 times over the builder's mixture"] = crossover(lists, BATCHES, 1.5)
    for level in lists[0]["at_level"]:
        rows = [{"words": each["words"], **each["at_level"][level]} for each in lists]
        found |= {f"{n} at once, {level}": crossover(rows, (n,)) for n in (1, 1_000)}
    return found


def crossover(
    lists: Sequence[Figures], batches: Sequence[int], faster: float = 1.0
) -> float | None:
    """Words from which on a graph that finds enough is ``faster`` times as fast as exact search.

    Over equal shares of ``batches``, and interpolated between the lists measured, on logarithmic
    scales; None where it is not so at the longest of them.
    """
    following: tuple[float, float] | None = None
    for each in reversed(lists):
        exact, graph = (
            sum(each[side][str(n)] for n in batches) for side in ("exact_us", "graph_us")
        )
        gain = math.log(exact / graph / faster) if each["suffices"] else -math.inf
        now = math.log(each["words"]), gain
        if gain < 0:
            if following is None:
                return None
            share = 0.0 if math.isinf(gain) else following[1] / (following[1] - gain)
            return float(round(math.exp(following[0] + share * (now[0] - following[0])), -3))
        following = now
    return float(lists[0]["words"])


def show(figures: Figures, console: Console) -> None:
    """Three tables and the crossovers."""
    graph = ("ef", "recall", "kept, points", "exact", "graph")
    classes = Table(title="classes of the bundle; microseconds a query at 1 / 20 / 200 / 1,000")
    for heading in ("class", "words", "built", "its recall", "its kept", *graph):
        classes.add_column(heading, justify="right")
    for row in figures["classes"]:
        built = (row["built"], least(row["built_recall"]), points(row["built_kept_difference"]))
        classes.add_row(row["class"], f"{row['words']:,}", *built, *cells(row))
    lists = Table(title="growing list; microseconds a query at 1 / 20 / 200 / 1,000")
    for heading in ("words", "build s", "exact MB", "graph MB", *graph):
        lists.add_column(heading, justify="right", no_wrap=True)
    levels = Table(title="growing list, a graph for one level only; microseconds at 1 / 1,000")
    for heading in ("words", "level", *graph):
        levels.add_column(heading, justify="right")
    for row in figures["lists"]:
        cost = (str(row[name]) for name in ("build_seconds", "exact_mb", "graph_mb"))
        lists.add_row(f"{row['words']:,}", *cost, *cells(row))
        for level, of_level in row["at_level"].items():
            levels.add_row(f"{row['words']:,}", level, *cells(of_level))
    console.print(classes, lists, levels)
    console.print("! does not reach a recall of .99 or keeps a point less at any effort tried")
    for what, words in figures["crossover_words"].items():
        found = f"from {words:,.0f} words on" if words else "at none of these sizes"
        console.print(f"graph faster, {what}: {found}")


def cells(row: Figures) -> tuple[str, ...]:
    """What a graph found, and both times."""
    times = (
        " / ".join(f"{each:.0f}" for each in row[side].values())
        for side in ("exact_us", "graph_us")
    )
    effort = f"{row['ef']}{'' if row['suffices'] else '!'}"
    return effort, least(row["recall"]), points(row["kept_difference"]), *times


def least(recall: dict[str, float]) -> str:
    """The smallest over the levels."""
    return f"{min(recall.values()):.3f}"


def points(difference: dict[str, float]) -> str:
    """The largest over the levels, in points."""
    return f"{100 * max(difference.values(), key=abs):+.2f}"


def draw(figures: Figures, file: Path) -> None:
    """Time, and what a graph costs, against the number of words."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    speed, cost = figure.subplots(1, 2)
    lists = figures["lists"]
    words = [each["words"] for each in lists]
    for side, colour in (("exact", "tab:blue"), ("graph", "tab:orange")):
        for n, line in ((1, "-"), (20, "-."), (1_000, ":")):
            times = [each[f"{side}_us"][str(n)] for each in lists]
            speed.plot(words, times, line, color=colour, marker="o", label=f"{side}, {n:,} at once")
        if side == "graph":
            light = [min(x["graph_us"]["1000"] for x in each["at_level"].values())
                     for each in lists]  # fmt: skip
            speed.plot(words, light, ":", color="tab:green", marker="o",
                       label="graph for the lightest noise only")  # fmt: skip
        cost.plot(words, [each[f"{side}_mb"] for each in lists], color=colour, marker="o",
                  label=f"{side}, MB")  # fmt: skip
    cost.plot(words, [each["build_seconds"] for each in lists], "--", color="tab:gray", marker="s",
              label="building the graph, s")  # fmt: skip
    speed.set(title="microseconds a query", xlabel="words", xscale="log", yscale="log")
    speed.yaxis.set_major_formatter("{x:.0f}")
    speed.set_yticks([10, 30, 100, 300, 1_000])
    cost.set(title="what it costs", xlabel="words", xscale="log", yscale="log")
    for axes in (speed, cost):
        axes.legend(fontsize="small")
        axes.grid(alpha=0.3)
        axes.set_xticks(words, [f"{n / 1000:.0f}k" for n in words])
        axes.minorticks_off()
    figure.savefig(file, dpi=130)


if __name__ == "__main__":
    main()
