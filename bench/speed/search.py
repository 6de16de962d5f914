"""When is a graph worth its misses, class by class?

Exact search and HNSW graphs answer the same noisy queries on one thread, taking turns; times are
medians, in microseconds a query, by how many queries come at once. Recall is the share of queries
whose nearest word the graph finds; "kept" the share of words released as they were, graph minus
exact search, in points.

    python -m bench.search
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from threadpoolctl import threadpool_limits

from bench import console
from bench.console import Figures, table
from sottovoce.cloud.building.indexes import (
    BATCHES,
    draw_queries,
    empty_graph,
    measured_graph,
    microseconds,
)
from sottovoce.cloud.models.noise_aware import class_counts
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.search import ExactIndex

AT_ONCE = (*BATCHES, 1_000)
FEWEST = 256
"""Classes smaller than this never get a graph."""


def main() -> None:
    """Measures each large class, and prints the table."""
    parser = console.parser("search", __doc__)
    parser.add_argument(
        "--levels",
        type=console.comma_separated,
        metavar="NAMES",
        help="that a graph must serve, such as pct2t.v1/light; default: all of the bundle's",
    )
    arguments = parser.parse_args()
    bundle = Bundle.open(arguments.bundle)
    met = class_counts(bundle)
    names = [name for name, each in bundle.manifest.classes.items() if each.words >= FEWEST]
    with threadpool_limits(1), tempfile.TemporaryDirectory() as folder:
        found = [
            compared(bundle, name, met[name], arguments.levels, Path(folder) / "graph")
            for name in console.track(names, "classes")
        ]
    figures = {"bundle": bundle.id, "dimensions": bundle.manifest.dimensions, "classes": found}
    said = "! does not reach a recall of .99 or keeps a point less at any effort tried"
    console.publish(arguments, figures, show(found), said)


def compared(
    bundle: Bundle,
    name: str,
    weights: NDArray[np.float32],
    levels: tuple[str, ...] | None,
    file: Path,
) -> Figures:
    """One class: how it is searched as built, and what a graph over it would do.

    Args:
        bundle: holds the class.
        name: of the class.
        weights: Floats1d (members,), how often each word is met in it.
        levels: that the graph must serve, by "mechanism/level"; None for all.
        file: for the graph.
    """
    rows, stored = np.asarray(bundle.class_rows(name)), bundle.manifest.classes[name]
    graph = empty_graph(len(rows), rows.shape[1])
    graph.add_items(rows)
    graph.save_index(str(file))
    asked = {each: bundle.manifest.level(*each.split("/")) for each in levels or stored.recall}
    etas = {each: level.etas.get(name, level.eta) for each, level in asked.items()}
    queries = draw_queries(rows, weights.astype(np.float64), etas)
    exact = ExactIndex(rows)
    found = measured_graph(file, exact, queries, len(rows))
    noisy = np.concatenate([noisy for _, noisy in queries.values()])
    noisy = noisy[np.random.default_rng(0).permutation(len(noisy))[: max(AT_ONCE)]]
    taken = {n: microseconds((exact, found.search), noisy[: max(n, 200)], n) for n in AT_ONCE}
    return {
        "class": name,
        "words": stored.words,
        "built": "exact" if stored.index is None else "graph",
        "ef": found.effort,
        "suffices": found.suffices,
        "recall": found.recall,
        "kept_difference": found.kept_difference,
        "exact_us": {str(n): round(times[0], 2) for n, times in taken.items()},
        "graph_us": {str(n): round(times[1], 2) for n, times in taken.items()},
    }


def show(classes: list[Figures]) -> Table:
    """A row a class: the least recall and the largest difference over the levels."""
    return table(
        f"classes of the bundle; microseconds a query at {' / '.join(map(str, AT_ONCE))} at once",
        ("class",),
        ("words", "built", "ef", "recall", "kept, points", "exact", "graph"),
        (
            (
                row["class"],
                f"{row['words']:,}",
                row["built"],
                f"{row['ef']}{'' if row['suffices'] else '!'}",
                f"{min(row['recall'].values()):.3f}",
                f"{100 * max(row['kept_difference'].values(), key=abs):+.2f}",
                *(
                    " / ".join(f"{each:.0f}" for each in row[side].values())
                    for side in ("exact_us", "graph_us")
                ),
            )
            for row in classes
        ),
    )


if __name__ == "__main__":
    main()
