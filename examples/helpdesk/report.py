"""The demo's figures as tables for a terminal and as one picture."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

from examples.helpdesk.attack import ALL

mpl.use("Agg")
import matplotlib.pyplot as plt

__all__ = ["draw", "show"]


def show(console: Console, figures: dict[str, Any]) -> None:
    """Prints what was typed, what left, what came back; then what it cost and bought."""
    table = Table(title="What was typed, what left the device, what came back", show_lines=True)
    for heading in ("typed", "left the device", "answer", "truth"):
        table.add_column(heading, overflow="fold")
    for row in figures["examples"]:
        right = "green" if row["answer"] == row["truth"] else "red"
        cells = (row["typed"], row["left_the_device"], f"[{right}]{row['answer']}", row["truth"])
        table.add_row(*cells)
    console.print(table)
    fates = Table(title="What became of the words: names, facts, and the rest")
    for heading in ("", "words", "left as typed", "guessed by a MAP attacker", "for example"):
        fates.add_column(heading, justify="right" if heading in ("words",) else "left")
    for name, row in figures["attack"].items():
        shown = ", ".join(f"{typed} → {seen}" for typed, seen in row["examples"])
        shares = (f"{row['as_typed']:.1%}", f"{row['guessed']:.1%}")
        fates.add_row(name, str(row["words"]), *shares, "" if name == ALL else shown)
    console.print(fates)
    summary = Table(title=f"{figures['mechanism']} at {figures['level']}")
    summary.add_column("figure")
    summary.add_column("value", justify="right")
    for name, value in _accuracies(figures):
        summary.add_row(f"accuracy, {name}", f"{value:.1%}")
    for name, value in figures["bytes"].items():
        summary.add_row(f"bytes, {name.replace('_', ' ')}", f"{value:,}")
    for name, value in figures["seconds"].items():
        summary.add_row(f"seconds, {name}", f"{value:.1f}")
    console.print(summary)


def _accuracies(figures: dict[str, Any]) -> list[tuple[str, float]]:
    return [(key.replace("_", " "), value) for key, value in figures["accuracy"].items()]


def draw(figures: dict[str, Any], path: Path) -> None:
    """Writes the picture: accuracy, attack and time above, a few messages below."""
    figure = plt.figure(figsize=(15, 9))
    figure.suptitle(
        f"Helpdesk messages, {figures['mechanism']} at {figures['level']} "
        f"(eta {figures['eta']:.1f})",
        fontsize=14,
    )
    boxes = {"accuracy": 0.15, "attack": 0.485, "time": 0.85}
    axes = {name: figure.add_axes((left, 0.64, 0.14, 0.26)) for name, left in boxes.items()}
    accuracies = dict(_accuracies(figures))
    ours = ("private", "at home")
    colours = ["#1b6ca8" if name.startswith(ours) else "#95a5a6" for name in accuracies]
    _bars(axes["accuracy"], "Accuracy on unseen messages", accuracies, colours, "%.3f")
    shares = {name: row["guessed"] for name, row in figures["attack"].items()}
    _bars(axes["attack"], "Of a kind's words, what an attacker gets", shares, "#b03a2e", "%.3f")
    stages = {name.partition(",")[0].partition(":")[0]: s for name, s in _stages(figures)}
    _bars(axes["time"], "Time by stage", stages, "#5d6d7e", "%.0f s")
    for column, row in enumerate(figures["examples"][:3]):
        lines = []
        for name, text in (("typed", row["typed"]), ("left the device", row["left_the_device"])):
            lines += [f"{name}:", *textwrap.wrap(text, 54), ""]
        lines += [f"answer: {row['answer']}   truth: {row['truth']}"]
        where = (0.03 + 0.325 * column, 0.55)
        figure.text(*where, "\n".join(lines), va="top", family="monospace", fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _stages(figures: dict[str, Any]) -> list[tuple[str, float]]:
    """Short names: the same step with and without reconstruction stays apart."""
    return [
        (name.replace("device customises, ", "customises "), seconds)
        for name, seconds in figures["seconds"].items()
    ]


def _bars(axes: Any, title: str, values: dict[str, float], colour: Any, unit: str) -> None:
    names = list(values)
    bars = axes.barh(names, list(values.values()), color=colour)
    axes.bar_label(bars, fmt=unit, padding=3)
    axes.invert_yaxis()
    axes.set(title=title, xlim=(0, max(values.values()) * 1.25))
    axes.spines[["top", "right"]].set_visible(False)
