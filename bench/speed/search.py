"""How fast are exact search and a graph, by class, level and number of words at once?

Both searches answer the same noisy queries in turn, in one process, by processor time. The graph
runs with the least effort that finds the nearest word for 99 % of queries and keeps the same share
of words as exact search, within a point. The last column names the search that the bundle states.

    python -m bench.search --bundle build/words-60000
"""

from __future__ import annotations

from statistics import fmean
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from bench import console
from bench.console import Figures, Table, table
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import mechanisms
from sottovoce.core.privacy.mechanisms.spherical import OWN
from sottovoce.core.privacy.search import ExactIndex, HnswIndex, Search
from sottovoce.core.privacy.token_embedding import COUNTS
from sottovoce.core.text.word_classes import READINGS
from sottovoce.models.indexes import BATCHES, draw_queries, measured_graph, microseconds

__all__ = ["measure"]

_SMALLEST: Final = 256
_EFFORT: Final = 16


def measure(bundle: Bundle, classes: list[str], rounds: int) -> list[Figures]:
    """Return the figures of each class and level: microseconds a query by batch, and recall."""
    manifest = bundle.manifest
    counts = np.load(bundle.folder / COUNTS, allow_pickle=False).astype(np.float64)
    chosen, found = Search(bundle), []
    for name in console.track(classes, "classes"):
        told, rows = manifest.classes[name], bundle.class_rows(name)
        weights = counts[told.offset : told.offset + told.words]
        mechanism = "pct2t.v2" if name.startswith(OWN) else "t2t.v1"
        etas = {
            level: mechanisms.make(mechanism, each, READINGS).eta_of(name)
            for level, each in manifest.calibration[mechanism].items()
        }
        graph, exact = HnswIndex.build(rows, _EFFORT), ExactIndex(rows)
        for level, queries in draw_queries(rows, weights, etas).items():
            with threadpool_limits(1):
                measured = measured_graph(graph, exact, {level: queries})
                times = {
                    batch: microseconds((exact, graph), queries[1][:1_000], batch, rounds)
                    for batch in BATCHES
                }
            of_exact, of_graph = (fmean(each) for each in zip(*times.values(), strict=True))
            found.append(
                {
                    "class": name,
                    "words": told.words,
                    "level": level,
                    "eta": etas[level],
                    "microseconds": {str(batch): each for batch, each in times.items()},
                    "effort": measured.effort,
                    "recall": measured.recall[level],
                    "times_faster": of_exact / of_graph,
                    "states": "hnsw" if told.ef and etas[level] >= told.from_eta else "exact",
                    "opens": type(chosen.index(name, etas[level])).__name__,
                }
            )
    return found


def _table(found: list[Figures]) -> Table:
    batches = [f"{kind}, {batch} at once" for batch in BATCHES for kind in ("exact", "graph")]
    return table(
        "Microseconds a query",
        ("class", "level"),
        ("words", *batches, "effort", "recall", "exact / graph", "bundle"),
        [
            (
                each["class"],
                each["level"],
                f"{each['words']:,}",
                *(f"{one:.0f}" for pair in each["microseconds"].values() for one in pair),
                str(each["effort"]),
                f"{each['recall']:.3f}",
                f"{each['times_faster']:.1f}",
                each["states"],
            )
            for each in found
        ],
    )


def main() -> None:
    parser = console.parser("search", __doc__, quick="fewer rounds")
    parser.add_argument("--classes", type=console.names(), help="comma-separated; default: large")
    arguments = parser.parse_args()
    bundle = Bundle.open(arguments.bundle)
    classes = arguments.classes or [
        name
        for name, each in bundle.manifest.classes.items()
        if each.words >= _SMALLEST and (name == "*" or name.startswith(OWN))
    ]
    found = measure(bundle, list(classes), 1 if arguments.quick else 3)
    console.publish(arguments, {"search": found}, _table(found))


if __name__ == "__main__":
    main()
