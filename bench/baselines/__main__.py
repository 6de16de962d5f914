"""How do the mechanisms of other authors compare with ours at equal attack success?

The mechanisms are T2T and PCT2T at full width, SanText, CusText, PII scrubbing, and token
embedding as Split-and-Denoise publishes it. The attackers of `bench.attacks` attack each of them
on the same words. Each of our levels is compared with the other mechanism's curve at equal attack
success. For DPNR and CAPE, which send embeddings of sentences, see `bench.embedding.outputs`.

    python -m bench.baselines --quick
    python -m bench.baselines --quick --only SanText,CusText
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from bench import console, processes
from bench.attacks.frontier import Point, against
from bench.attacks.harness import FULL, QUICK, Row
from bench.attacks.run import DATA_SETS, Place
from bench.baselines.run import BASELINES, OURS, opened, plan
from bench.console import Figures, Table, share, span
from bench.data import require
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2
from sottovoce.core.privacy.policies import LEVELS


def _compared(points: Sequence[Point]) -> Iterable[Figures]:
    """Compare each of our points with every other mechanism that hides words or tokens alike."""
    clear = next(point.utility for point in points if point.mechanism == "none")
    curves: dict[str, list[Point]] = {}
    for point in points:
        if point.tallies:
            curves.setdefault(point.mechanism, []).append(point)
    for name, levels in curves.items():
        if not name.endswith((".v1", ".v2")):
            continue
        for other, curve in curves.items():
            alike = name.startswith("token") == other.startswith("token")
            if alike and len(curve) > 1 and not other.endswith((".v1", ".v2")):
                for point in levels:
                    yield from against(point, curve, clear)


def main() -> None:
    """Print the tables."""
    quick = "less of everything: about half an hour on 2 idle cores"
    parser = console.parser("baselines", __doc__, quick=quick, models=True, data="the data sets")
    console.ask_names(parser, "--only", BASELINES)
    console.ask_names(parser, "--mechanisms", OURS, (PCT2T2.name,), ", to compare with")
    console.ask_names(parser, "--levels", LEVELS)
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="processes, 1 GiB each"
    )
    arguments = parser.parse_args()
    require(parser, arguments.data, *DATA_SETS)
    budget = QUICK if arguments.quick else FULL
    place = Place(arguments.bundle, arguments.models, arguments.data, budget)
    jobs = plan(arguments.only, arguments.mechanisms, arguments.levels)
    done = processes.share_out(opened, place, jobs, arguments.processes)
    found = dict(console.track(done, "attacking", total=len(jobs)))
    rows = [row for job in jobs for row in found[job].rows]
    points = [point for job in jobs for point in found[job].points]
    compared = [*_compared(points)]
    utility = [
        {"mechanism": each.mechanism, "level": each.level, **each.figures()} for each in points
    ]
    figures: Figures = {"rows": rows, "utility": utility, "comparisons": compared}
    figures["bundle"] = Bundle.open(arguments.bundle).id
    console.publish(arguments, figures, *_tables(rows, utility, compared))


def _tables(
    rows: Sequence[Row], utility: Sequence[Figures], compared: Sequence[Figures]
) -> Iterable[Table]:
    named = ("mechanism", "level", "attack")
    parts = ("success", "rare", "names", "numbers")
    yield console.table(
        "share recovered",
        named,
        ("all", "95 %", "rare", "names", "numbers"),
        (
            (
                *(row[name] for name in named),
                share(row["success"]),
                span(row["ci"]),
                *(share(row[name]) for name in parts[1:]),
            )
            for row in rows
        ),
    )
    yield console.table(
        "utility",
        named[:2],
        ("SST-2", "95 %", "cosine", "95 %"),
        (
            (
                *(row[name] for name in named[:2]),
                *(
                    cell
                    for name in ("accuracy", "cosine")
                    for cell in (share(row.get(name)), span(row.get(f"{name}_ci")))
                ),
            )
            for row in utility
        ),
    )
    yield console.table(
        "at equal attack success",
        ("ours", "level", "against", "on", "utility"),
        ("recovered", "value", "theirs", "difference", "95 %", "verdict"),
        (
            (
                *(row[name] for name in ("ours", "level", "against", "on", "utility")),
                *(share(row[name]) for name in ("at", "value", "theirs")),
                share(row["difference"], sign="+"),
                span(row["ci"], sign="+"),
                row["verdict"],
            )
            for row in compared
        ),
    )


if __name__ == "__main__":
    main()
