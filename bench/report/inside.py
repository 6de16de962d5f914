"""Pictures of single mechanisms: whom they protect, and what words do in them.

Why it is here: the average over words hides who pays for it.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.console import sheet
from bench.report import names
from bench.report.canvas import BAD, SHADES, Drawn, Row
from bench.report.names import LEVELS, number

__all__ = ["measures", "people"]


def people(result: Row) -> Drawn:
    """Attributes, entities and averaging by level, beside what is reached on clear text."""
    rows = [*result["clear"]["rows"], *result["rows"]]
    kinds = [
        ("gender", "gender of the author"),
        ("age group", "age group of the author"),
        ("NER, F1", "entities found (F1)"),
    ]
    kinds += [
        (name, f"{name.split(',')[0].replace('averaging', 'averaging over')} releases,{where}")
        for name, where in (
            (row["attack"], row["attack"].split(",")[1]) for row in rows if "memo" in row["attack"]
        )
    ]
    kinds = [*dict.fromkeys(kind for kind in kinds if any(r["attack"] == kind[0] for r in rows))]
    if not kinds:
        return None
    figure, (axes,) = sheet(8.4, 1.4 + 0.55 * len(kinds))
    said = []
    for y, (attack, label) in enumerate(reversed(kinds)):
        for row in (row for row in rows if row["attack"] == attack):
            place = [*SHADES].index(row["level"])
            height = y + 0.24 - 0.16 * place
            axes.plot(row["ci"], [height] * 2, color=SHADES[row["level"]], linewidth=1)
            axes.plot(row["success"], height, "o", color=SHADES[row["level"]], ms=6)
            if "majority" in row:
                axes.plot([row["majority"]] * 2, [y - 0.35, y + 0.35], color=BAD)
            said.append(f"{label}, {row['level']}: {number(row['success'])}")
    axes.set_yticks(range(len(kinds)), [label for _, label in reversed(kinds)])
    for level, colour in SHADES.items():
        axes.plot([], [], "o", color=colour, label=level)
    axes.plot([], [], color=BAD, label="knowing nothing of the text")
    figure.legend(loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    axes.set(xlim=(0, 1.02), xlabel="success")
    axes.grid(alpha=0.25)
    return figure, "Attacks on people and on repeats. " + "; ".join(said) + "."


def measures(result: Row) -> Drawn:
    """What needs no attacker: mutual information, N_w, S_w, hubs."""
    rows = [row for row in result["measures"]["mechanisms"] if row["level"] in LEVELS]
    if not rows:
        return None
    columns: dict[str, Callable[[Row], float]] = {
        "information, nats": lambda row: float(row["information"]),
        "stays itself (N_w)": lambda row: float(row["deniability"]["stays"]),
        "outputs (S_w)": lambda row: float(row["deniability"]["outputs"]),
        "hub share": lambda row: float(row["hubs"]),
    }
    mechanisms = [*dict.fromkeys(row["mechanism"] for row in rows)]
    figure, found = sheet(10.4, 1.6 + 0.36 * len(mechanisms), 4, sharey=True)
    for axes, (title, value) in zip(found, columns.items(), strict=True):
        for row in rows:
            y = len(mechanisms) - 1 - mechanisms.index(row["mechanism"])
            axes.plot(value(row), y, "o", color=SHADES[row["level"]], ms=7)
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.25)
    found[0].set_yticks(range(len(mechanisms)), [names.of(name) for name in mechanisms[::-1]])
    for level in LEVELS:
        found[-1].plot([], [], "o", color=SHADES[level], label=level)
    figure.legend(loc="outside lower center", ncols=len(LEVELS), fontsize=10, frameon=False)
    return figure, "What mechanisms give away by themselves. " + "; ".join(
        f"{names.of(row['mechanism'])} {row['level']}: "
        + ", ".join(f"{title} {number(value(row))}" for title, value in columns.items())
        for row in rows
    )
