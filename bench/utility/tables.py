"""Tables of `bench.utility`, in the papers' form.

The published figures beside ours use another backbone: BERT-base (110M parameters) on 67,000
phrases.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, Final

from bench.console import Table, table
from bench.utility.grid import Cell, Source
from bench.utility.tasks import REPLACED
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2, T2T

__all__ = ["PUBLISHED", "rows", "show"]

Row = dict[str, Any]
Cells = Sequence[tuple[Cell, dict[str, Any]]]

PUBLISHED: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "lora": {
        "T2T": (53.1, 68.9, 76.9, 91.4),
        "PCT2T": (60.6, 80.2, 88.1, 91.9),
    },
    "prefix": {
        "T2T": (50.4, 60.7, 64.9, 90.7),
        "PCT2T": (58.2, 76.8, 84.1, 90.7),
    },
}
"""SST-2, BERT-base, at .85, .45 and .14 replaced and without privacy (RAPT v2, tables II, III)."""

_NAMES: Final = {PCT2T2.name: "PCT2T", T2T.name: "T2T", "": "none"}


def rows(cells: Cells) -> list[Row]:
    """Return a row per task, mechanism, share and method: mean, deviation, drop from clear."""
    groups: dict[tuple[Source, str], list[dict[str, Any]]] = {}
    for cell, result in cells:
        groups.setdefault((cell.source, cell.method), []).append(result)
    found = []
    for (source, method), results in groups.items():
        row: Row = {
            "task": source.task,
            "mechanism": source.mechanism,
            "target": source.replaced,
            "method": method,
            "seeds": len(results),
        }
        measures = ("accuracy", "matthews", "at_home")
        for measure in measures if "at_home" in results[0] else measures[:2]:
            values = [result[measure] for result in results]
            row[measure] = statistics.fmean(values)
            row[f"{measure}_sd"] = statistics.stdev(values) if len(values) > 1 else None
        for measure in ("protected", "replaced", "replaced_all"):
            if measure in results[0]:
                row[measure] = statistics.fmean(result[measure] for result in results)
        row |= {name: results[0][name] for name in ("level", "eta", "train", "dev", "majority")}
        row["seconds"] = statistics.fmean(result["seconds"] for result in results)
        found.append(row)
    clear = {(row["task"], row["method"]): row for row in found if not row["target"]}
    for row in found:
        if row["target"] and (of := clear.get((row["task"], row["method"]))):
            row["drop"] = of["accuracy"] - row["accuracy"]
    return found


def show(result: dict[str, Any]) -> Iterator[Table | str]:
    """Return the tables."""
    made: list[Row] = result["rows"]
    for task in dict.fromkeys(row["task"] for row in made):
        yield from _of_task(task, [row for row in made if row["task"] == task])


def _of_task(task: str, made: list[Row]) -> Iterator[Table | str]:
    first = made[0]
    seeds = f"mean ± deviation of {first['seeds']} seeds" if first["seeds"] > 1 else "one seed"
    by = {(row["method"], row["mechanism"], row["target"]): row for row in made}
    mechanisms = [name for name in dict.fromkeys(row["mechanism"] for row in made) if name]
    cells: list[tuple[str, ...]] = []
    for method in dict.fromkeys(row["method"] for row in made):
        clear, before = by.get((method, "", 0.0)), len(cells)
        for mechanism in mechanisms:
            of = [by.get((method, mechanism, share)) for share in REPLACED]
            if any(of):
                told = PUBLISHED.get(method, {}).get(_NAMES[mechanism], ())
                published = " / ".join(map(str, told)) if task == "sst2" else ""
                cells.append((method, _NAMES[mechanism], *map(_percent, (*of, clear)), published))
                home = [_of_device(row, clear) for row in (*of, clear)]
                if any(home):
                    name = f"{_NAMES[mechanism]}, asked at home"
                    cells.append((method, name, *map(_percent, home), ""))
        if clear and len(cells) == before:  # nothing else was asked for
            cells.append((method, "none", *[""] * 3, _percent(clear), ""))
    yield table(
        f"{task}: accuracy in percent, {seeds}; {first['train']:,} examples,"
        f" {first['dev']:,} held out, always the same answer {100 * first['majority']:.1f};"
        " (points against no privacy)",
        ("method", "mechanism"),
        (*(f"{share:g} replaced" for share in REPLACED), "no privacy", "BERT-base, published"),
        cells,
    )
    noisy = {(row["mechanism"], row["target"]): row for row in made if row["mechanism"]}
    for (mechanism, target), row in noisy.items():
        yield (
            f"  {_NAMES[mechanism]}, {target:g}: {row['level']} (eta {row['eta']:.1f});"
            f" held-out words protected {row['protected']:.2f}, of these replaced"
            f" {row['replaced']:.2f} in the list, {row['replaced_all']:.2f} with unlisted ones"
        )
    for row in made if task == "cola" else ():
        name = row["mechanism"] or "clear"
        yield f"  Matthews, {name} {row['target']:g}: {row['matthews']:.3f}"


def _of_device(row: Row | None, clear: Row | None) -> Row | None:
    """Return the device's results in the place of the cloud's; empty if it was not asked."""
    if row is None or "at_home" not in row:
        return None
    found = row | {"accuracy": row["at_home"], "accuracy_sd": row["at_home_sd"]}
    if clear and "drop" in row:
        found["drop"] = clear["at_home"] - row["at_home"]
    return found


def _percent(row: Row | None) -> str:
    """Format mean and deviation, with the drop from clear text in brackets; empty for none."""
    if row is None:
        return ""
    spread, drop = row["accuracy_sd"], row.get("drop")
    shown = f"{100 * row['accuracy']:.1f}"
    shown += "" if spread is None else f" ± {100 * spread:.1f}"
    return shown + ("" if drop is None else f" ({-100 * drop:+.1f})")
