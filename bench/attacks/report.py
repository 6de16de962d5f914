"""The tables and the picture of `bench.attacks`.

Why it is here: what is measured should not know how it is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

matplotlib.use("Agg")
from matplotlib import pyplot

__all__ = ["plot", "show", "strongest"]

_INVERSION = ("nearest", "nearest, rescaled", "MAP", "MAP in context", "MLP", "autoencoder")

_TAILS = ("rare", "names", "numbers")

Row = dict[str, Any]


def strongest(rows: list[Row]) -> list[Row]:
    """The attack that recovers most at each mechanism and level, apart for what it sees, and the
    empirical privacy 1 - X it leaves (RAPT v2 section IV-A), with its interval."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row["mechanism"], row["level"], row["sees"]
        if row["attack"] in _INVERSION and (
            key not in best or row["success"] > best[key]["success"]
        ):
            best[key] = row
    return [
        {
            **{name: row[name] for name in ("mechanism", "level", "sees", "attack")},
            "empirical_privacy": _left(row["success"]),
            "ci": _left(row["ci"]),
            **{name: _left(row[name]) for name in _TAILS},
            **{f"{name}_ci": _left(row[f"{name}_ci"]) for name in _TAILS},
        }
        for row in best.values()
    ]


def _left(share: Any) -> Any:
    """What a success leaves, or the ends of an interval; nothing of nothing."""
    if isinstance(share, list):
        return [1 - end for end in reversed(share)]
    return None if share is None else 1 - share


def show(console: Console, result: dict[str, Any]) -> None:
    """Prints the tables."""
    table = Table(title="success of the attacks, 95 % interval", title_justify="left")
    for column in ("mechanism", "level", "sees", "attack"):
        table.add_column(column)
    for column in ("success", "interval", *_TAILS, "without the text", "squared error"):
        table.add_column(column, justify="right")
    for row in (*result["clear"]["rows"], *result["rows"]):
        low, high = row["ci"]
        table.add_row(
            *(row[name] for name in ("mechanism", "level", "sees", "attack")),
            f"{row['success']:.3f}",
            f"{low:.3f}-{high:.3f}",
            *(_number(row[name]) for name in _TAILS),
            _number(row.get("majority")),
            f"{row['mse']:.3f} of {row['mse_of_mean']:.3f}" if "mse" in row else "",
        )
    console.print(table)
    table = Table(title="empirical privacy against the strongest attack", title_justify="left")
    for column in ("mechanism", "level", "sees", "attack"):
        table.add_column(column)
    for column in ("1 - X", "interval", "rare", "names", "numbers"):
        table.add_column(column, justify="right")
    for row in result["measures"]["strongest"]:
        low, high = row["ci"]
        table.add_row(
            *(row[name] for name in ("mechanism", "level", "sees", "attack")),
            f"{row['empirical_privacy']:.3f}",
            f"{low:.3f}-{high:.3f}",
            *(_number(row[name]) for name in ("rare", "names", "numbers")),
        )
    console.print(table)
    table = Table(title="what mechanisms give away and cost", title_justify="left")
    table.add_column("mechanism")
    table.add_column("level")
    for column in ("nats a word", "stays", "worst", "outputs", "worst", "hubs", "SST-2", "cosine"):
        table.add_column(column, justify="right")
    measured = {(row["mechanism"], row["level"]): row for row in result["measures"]["mechanisms"]}
    for cost in result["measures"]["utility"]:
        row = measured.get((cost["mechanism"], cost["level"]))
        table.add_row(
            cost["mechanism"],
            cost["level"],
            *(
                [""] * 6
                if row is None
                else (
                    f"{row['information']:.2f}",
                    *(f"{share:.2f}" for share in row["deniability"].values()),
                    f"{row['hubs']:+.3f}",
                )
            ),
            _number(cost.get("accuracy")),
            _number(cost["cosine"]),
        )
    console.print(table)
    table = Table(title="parts of speech, each hidden alone", title_justify="left")
    names = ("mean", "variance", "own", "everything", "accuracy", "cosine")
    for column in (
        "tag",
        "words",
        "distance",
        "variance",
        "MAP on it",
        "on all",
        "SST-2",
        "cosine",
    ):
        table.add_column(column, justify="right")
    for row in result["measures"]["parts_of_speech"]:
        numbers = (_number(row.get(name)) for name in names)
        table.add_row(row["tag"], str(row["words"]), *numbers)
    console.print(table)
    table = Table(title="utility at equal success of the strongest attack", title_justify="left")
    for column in ("ours", "level", "against", "equal on", "utility"):
        table.add_column(column)
    for column in ("at", "ours", "theirs", "difference", "interval"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    for row in result["measures"]["comparisons"]:
        low, high = row["ci"]
        table.add_row(
            *(row[name] for name in ("ours", "level", "against", "on", "utility")),
            *(_number(row[name]) for name in ("at", "value", "theirs")),
            f"{row['difference']:+.3f}",
            f"{low:+.3f} to {high:+.3f}",
            row["verdict"],
        )
    console.print(table)
    if result["clear"]["failed"]:
        console.print(f"BROKEN, so their low scores prove nothing: {result['clear']['failed']}")
    else:
        console.print("every attack reaches on clear text what its definition implies")


def plot(result: dict[str, Any], path: Path) -> None:
    """Success by level for every attack on ours, the baselines, and the parts of speech."""
    figure, axes = pyplot.subplots(1, 3, figsize=(18, 6), layout="constrained")
    rows = [row for row in result["rows"] if row["attack"] in _INVERSION]
    names = [row["mechanism"] for row in rows]
    shown = result["default"] if result["default"] in names else names[0]
    ours = [row for row in rows if row["mechanism"] == shown]
    levels = [*dict.fromkeys(row["level"] for row in ours)]
    kinds = [*dict.fromkeys((row["sees"], row["attack"]) for row in ours)]
    width = 0.8 / len(kinds)
    for place, (sees, attack) in enumerate(kinds):
        found = {
            row["level"]: row["success"]
            for row in ours
            if (row["sees"], row["attack"]) == (sees, attack)
        }
        at = [level for level in levels if level in found]
        x = np.array([levels.index(level) for level in at]) + place * width
        axes[0].bar(x, [found[level] for level in at], width, label=f"{attack} ({sees})")
    axes[0].set_xticks(np.arange(len(levels)) + 0.4, levels)
    axes[0].set(title=shown, ylabel="share of words recovered", ylim=(0, 1))
    axes[0].legend(fontsize=8, loc="upper left")  # above the strongest level
    best = [row for row in result["measures"]["strongest"] if row["sees"] == "word"]
    names = [f"{row['mechanism']} {row['level']}" for row in best]
    axes[1].barh(names, [1 - row["empirical_privacy"] for row in best])
    axes[1].set(title="strongest attack on released words", xlabel="share recovered")
    for row in result["measures"]["parts_of_speech"]:
        axes[2].scatter(row["mean"], 1 - row["own"])
        axes[2].annotate(row["tag"], (row["mean"], 1 - row["own"]))
    axes[2].set(
        title="parts of speech, each hidden alone",
        xlabel="mean distance of two words",
        ylabel="empirical privacy of its words",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
