"""The demo's figures as tables for a terminal and as one picture."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib as mpl
from rich.console import Console
from rich.table import Table

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
    summary = Table(title=f"{figures['mechanism']} at {figures['level']}")
    summary.add_column("figure")
    summary.add_column("value", justify="right")
    for name, value in _accuracies(figures):
        summary.add_row(f"accuracy, {name}", f"{value:.1%}")
    attack = figures["attack"]
    summary.add_row("protected words", str(attack["protected_words"]))
    summary.add_row("of these left as they were", f"{attack['kept']:.1%}")
    summary.add_row("of these recovered by a MAP attacker", f"{attack['map_recovered']:.1%}")
    summary.add_row("identifiers recovered", f"{attack['identifiers_recovered']:.1%}")
    for name, value in figures["bytes"].items():
        summary.add_row(f"bytes, {name.replace('_', ' ')}", f"{value:,}")
    for name, value in figures["seconds"].items():
        summary.add_row(f"seconds, {name}", f"{value:.1f}")
    console.print(summary)


def _accuracies(figures: dict[str, Any]) -> list[tuple[str, float]]:
    return [(key.replace("_", " "), value) for key, value in figures["accuracy"].items()]


def draw(figures: dict[str, Any], path: Path) -> None:
    """Writes the picture: accuracy, attack, time and a few messages."""
    plain = {"edgecolor": "none"}
    figure, axes = plt.subplots(2, 2, figsize=(13, 8.5), layout="constrained")
    figure.suptitle(
        f"Helpdesk messages, {figures['mechanism']} at {figures['level']} "
        f"(eta {figures['eta']:.1f})",
        fontsize=14,
    )
    names, values = zip(*_accuracies(figures), strict=True)
    colours = ["#1b6ca8" if name.startswith("private") else "#95a5a6" for name in names]
    bars = axes[0, 0].barh(names[::-1], values[::-1], color=colours[::-1], **plain)
    axes[0, 0].bar_label(bars, fmt="%.3f", padding=3)
    axes[0, 0].set(title="Accuracy on unseen messages", xlim=(0, 1.12))

    attack = figures["attack"]
    shares = {
        "identifiers recovered": attack["identifiers_recovered"],
        "unknown words recovered": attack["unknown_recovered"],
        "known words left as they were": attack["kept"],
        "known words recovered (MAP)": attack["map_recovered"],
    }
    bars = axes[0, 1].barh(list(shares), list(shares.values()), color="#b03a2e", **plain)
    axes[0, 1].bar_label(bars, fmt="%.3f", padding=3)
    axes[0, 1].set(title="What an attacker gets (protected words)", xlim=(0, 1.12))

    stages = figures["seconds"]
    bars = axes[1, 0].barh(
        list(stages)[::-1], list(stages.values())[::-1], color="#5d6d7e", **plain
    )
    axes[1, 0].bar_label(bars, fmt="%.0f s", padding=3)
    axes[1, 0].set(title="Time by stage", xlim=(0, max(stages.values()) * 1.18))

    axes[1, 1].axis("off")
    axes[1, 1].set_title("Typed, and what left the device")
    lines = []
    for row in figures["examples"][:4]:
        lines += textwrap.wrap("typed:  " + row["typed"], 84, subsequent_indent="        ")
        lines += textwrap.wrap(
            "left:   " + row["left_the_device"], 84, subsequent_indent="        "
        )
        lines += [f"answer: {row['answer']} (truth: {row['truth']})", ""]
    axes[1, 1].text(0, 1, "\n".join(lines), va="top", family="monospace", fontsize=7.5)
    figure.savefig(path, dpi=110)
    plt.close(figure)
