"""Tables and picture of `bench.utility`, in the papers' form.

Why it is here: what is measured should not know how it is shown. The published figures stand beside
ours and are another backbone's: BERT-base (110M parameters) on 67,000 phrases.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

from bench.utility.grid import VARIANTS, Cell
from bench.utility.tasks import REPLACED
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T
from sottovoce.core.privacy.mechanisms.t2t import T2T

matplotlib.use("Agg")
from matplotlib import pyplot

__all__ = ["PUBLISHED", "differences", "plot", "rows", "show"]

Row = dict[str, Any]
Cells = Sequence[tuple[Cell, dict[str, Any]]]

PUBLISHED: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "lora": {
        "t2t.v1 plain": (53.1, 68.9, 76.9, 91.4),
        "pct2t.v1 plain": (60.6, 80.2, 88.1, 91.9),
        "pct2t.v1 reconstruction": (62.4, 81.1, 89.6, 91.8),
    },
    "prefix": {
        "t2t.v1 plain": (50.4, 60.7, 64.9, 90.7),
        "pct2t.v1 plain": (58.2, 76.8, 84.1, 90.7),
        "pct2t.v1 reconstruction": (59.4, 78.9, 84.3, 90.8),
    },
}
"""SST-2, BERT-base, at .85, .45 and .14 replaced and without privacy (RAPT v2, tables II, III)."""

_NAMES: Final = {PCT2T.name: "PCT2T", T2T.name: "T2T", "": "none"}
_T95: Final = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 9: 2.31}
"""Student's t for 95 % by number of differences; 2.2 for the rest, which are 12 or more."""


def rows(cells: Cells) -> list[Row]:
    """One for each task, mechanism, policy, share, method and variant: mean and deviation, and
    the drop from the same method on clear text."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for cell, result in cells:
        groups.setdefault((cell.source, cell.method, cell.variant), []).append(result)
    found = []
    for (source, method, variant), results in groups.items():
        row: Row = {
            "task": source.task,
            "mechanism": source.mechanism,
            "policy": source.policy,
            "target": source.replaced,
            "method": method,
            "variant": variant,
            "seeds": len(results),
        }
        for measure in ("accuracy", "matthews"):
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


def differences(cells: Cells) -> list[Row]:
    """What each variant gains over plain training on the same released text, seed by seed.

    With its 95 % interval (Student's t over the seeds), and over all of a method's cells at once.
    """
    results = {cell: result["accuracy"] for cell, result in cells}
    groups: dict[tuple[str, ...], list[float]] = {}
    for cell, accuracy in results.items():
        plain = Cell(cell.source, cell.method, "plain", cell.seed)
        if cell.variant != "plain" and plain in results:
            source = cell.source
            gain = accuracy - results[plain]
            at = (source.mechanism, f"{source.replaced:g}")
            groups.setdefault((source.task, cell.method, cell.variant, *at), []).append(gain)
            groups.setdefault((source.task, cell.method, cell.variant, "all", "all"), []).append(
                gain
            )
    found = []
    for (task, method, variant, mechanism, replaced), gains in groups.items():
        n = len(gains)
        half = None
        if n > 1:
            half = _T95.get(n, 2.2) * statistics.stdev(gains) / n**0.5
        found.append(
            {
                "task": task,
                "method": method,
                "variant": variant,
                "mechanism": mechanism,
                "target": replaced,
                "runs": n,
                "gain": statistics.fmean(gains),
                "half_interval": half,
            }
        )
    return found


def show(console: Console, result: dict[str, Any]) -> None:
    """Prints the tables."""
    made: list[Row] = result["rows"]
    for task in dict.fromkeys(row["task"] for row in made):
        _show_task(console, task, [row for row in made if row["task"] == task])
    if result["differences"]:
        table = Table(title="points over plain training, same text, 95 % interval over seeds")
        for heading in ("method", "variant", "mechanism", "replaced", "runs", "points"):
            table.add_column(heading)
        for row in result["differences"]:
            half = "" if row["half_interval"] is None else f" ± {100 * row['half_interval']:.1f}"
            table.add_row(
                row["method"],
                row["variant"],
                _NAMES.get(row["mechanism"], row["mechanism"]),
                row["target"],
                str(row["runs"]),
                f"{100 * row['gain']:+.1f}{half}",
            )
        console.print(table)


def _show_task(console: Console, task: str, made: list[Row]) -> None:
    first = made[0]
    seeds = f"mean ± deviation of {first['seeds']} seeds" if first["seeds"] > 1 else "one seed"
    title = (
        f"{task}: accuracy in percent, {seeds};"
        f" {first['train']:,} examples, {first['dev']:,} held out,"
        f" always the same answer {100 * first['majority']:.1f}; (points against no privacy)"
    )
    table = Table(title=title, title_justify="left")
    published = task == "sst2"
    for heading in ("method", "mechanism", "words", "variant"):
        table.add_column(heading)
    for share in (*(f"{share:g} replaced" for share in REPLACED), "no privacy"):
        table.add_column(share, justify="right")
    if published:
        table.add_column("BERT-base, published", justify="right")
    by = {
        (row["method"], row["mechanism"], row["policy"], row["variant"], row["target"]): row
        for row in made
    }
    for method in dict.fromkeys(row["method"] for row in made):
        clear = by.get((method, "", "", "plain", 0.0))
        kinds = dict.fromkeys((row["mechanism"], row["policy"]) for row in made if row["mechanism"])
        above = table.row_count
        for mechanism, policy in kinds:
            for variant in VARIANTS:
                of = [by.get((method, mechanism, policy, variant, share)) for share in REPLACED]
                if not any(of):
                    continue
                words = "all" if mechanism == T2T.name else f"policy {policy}"
                cells = [method, _NAMES[mechanism], words, variant, *map(_percent, (*of, clear))]
                if published:
                    told = PUBLISHED.get(method, {}).get(f"{mechanism} {variant}", ())
                    cells.append(" / ".join(map(str, told)) if policy != "all" else "")
                table.add_row(*cells)
        if clear and table.row_count == above:  # nothing else was asked for
            table.add_row(method, "none", "", "plain", "", "", "", _percent(clear))
    console.print(table)
    shares = {
        (row["mechanism"], row["policy"], row["target"]): row for row in made if row["mechanism"]
    }
    for (mechanism, policy, target), row in shares.items():
        console.print(
            f"  {_NAMES[mechanism]}, {policy}, {target:g}: {row['level']} (eta {row['eta']:.1f});"
            f" held-out words protected {row['protected']:.2f}, of these replaced"
            f" {row['replaced']:.2f} in the list, {row['replaced_all']:.2f} with unlisted ones",
            highlight=False,
        )
    if task == "cola":
        for row in made:
            console.print(
                f"  Matthews, {row['mechanism'] or 'clear'} {row['target']:g}:"
                f" {row['matthews']:.3f}",
                highlight=False,
            )


def _percent(row: Row | None) -> str:
    """Mean, deviation, and in brackets how far from clear text; or nothing."""
    if row is None:
        return ""
    spread, drop = row["accuracy_sd"], row.get("drop")
    shown = f"{100 * row['accuracy']:.1f}" + (
        f" ± {100 * spread:.1f}" if spread is not None else ""
    )
    return shown + (f" ({-100 * drop:+.1f})" if drop is not None else "")


def plot(result: dict[str, Any], path: Path) -> None:
    """Accuracy by share replaced: a panel for each method on SST-2, one for the other tasks."""
    made: list[Row] = result["rows"]
    methods = list(dict.fromkeys(row["method"] for row in made if row["task"] == "sst2"))
    others = [row for row in made if row["task"] != "sst2"]
    panels = len(methods) + bool(others)
    figure, axes = pyplot.subplots(
        1, panels, figsize=(6 * panels, 5), layout="constrained", squeeze=False, sharey=True
    )
    for axis, method in zip(axes[0], methods, strict=False):
        for mechanism, dash in ((PCT2T.name, "-"), (T2T.name, "--")):
            for variant in VARIANTS:
                of = [
                    row
                    for row in made
                    if (row["task"], row["method"], row["mechanism"], row["variant"])
                    == ("sst2", method, mechanism, variant)
                    and row["policy"] == "default"
                ]
                if of:
                    _line(axis, of, f"{_NAMES[mechanism]}, {variant}", dash)
            told = PUBLISHED.get(method, {}).get(f"{mechanism} plain")
            if told:
                axis.plot(
                    REPLACED, told[:3], "k" + dash, alpha=0.4,
                    label=f"BERT-base, published, {_NAMES[mechanism]}",
                )  # fmt: skip
        clear = [
            r for r in made if r["task"] == "sst2" and r["method"] == method and not r["target"]
        ]
        for row in clear:
            axis.axhline(100 * row["accuracy"], color="tab:gray", lw=1, label="no privacy")
        axis.set_title(f"SST-2, {method}")
    if others:
        axis = axes[0][-1]
        for task in dict.fromkeys(row["task"] for row in others):
            _line(axis, [row for row in others if row["task"] == task], task, "-")
        axis.set_title(f"other tasks, {others[0]['method']}, PCT2T (0: no privacy)")
    for axis in axes[0]:
        axis.set(xlabel="share of protected words replaced", ylabel="accuracy, %")
        axis.legend(fontsize=7)
        axis.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _line(axis: Any, of: list[Row], label: str, dash: str) -> None:
    of = sorted(of, key=lambda row: row["target"])
    spread = np.array([100 * (row["accuracy_sd"] or 0) for row in of])
    axis.errorbar(
        [row["target"] for row in of],
        [100 * row["accuracy"] for row in of],
        spread,
        fmt="o" + dash,
        ms=3,
        capsize=2,
        label=label,
    )
