"""Pictures of single mechanisms: whom they protect, and what parts of speech and words do in them.

Why it is here: the average over words hides who pays for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib import pyplot

from bench.report import names
from bench.report.canvas import BAD, GOOD, SHADES, Drawn, Row, costs, sheet
from bench.report.names import LEVELS, UTILITIES, number

__all__ = ["effects", "geometry", "measures", "people"]


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


def effects(result: Row) -> Drawn:
    """RAPT v2 figure 6: what hiding one part of speech alone gives and costs."""
    rows = result["measures"]["parts_of_speech"]
    clear = costs(result)["none", "clear"]
    shown = [name for name in UTILITIES if name in clear]
    if not rows:
        return None
    figure, found = pyplot.subplots(
        1, len(shown), figsize=(5.2 * len(shown), 4.4), layout="constrained", squeeze=False
    )
    said = []
    for axes, name in zip(found[0], shown, strict=True):
        for place, row in enumerate(sorted(rows, key=lambda row: float(row["everything"]))):
            x, y = 1 - row["everything"], clear[name] - row[name]
            low, high = row[f"{name}_ci"]
            span = [[high - row[name]], [row[name] - low]]
            axes.errorbar(x, y, yerr=span, fmt="o", color=GOOD, elinewidth=0.8)
            shift = (5, 4) if place % 2 else (5, -12)  # neighbours would cover one another
            axes.annotate(row["tag"], (x, y), shift, textcoords="offset points", fontsize=9)
            said.append(f"{row['tag']}: hidden {number(x)}, {UTILITIES[name]} lost {number(y, 3)}")
        axes.axhline(0, color="#000000", linewidth=0.8)
        axes.margins(x=0.12)
        axes.set(xlabel="share of all words hidden from MAP", ylabel=f"{UTILITIES[name]} lost")
        axes.grid(alpha=0.25)
    return figure, "Each part of speech hidden alone. " + "; ".join(said) + "."


def geometry(result: Row) -> Drawn:
    """RAPT v2 figure 8: distances between the words of a part of speech, and how they hide."""
    rows = result["measures"]["parts_of_speech"]
    if not rows:
        return None
    figure, found = pyplot.subplots(1, 3, figsize=(10.4, 3.6), layout="constrained")
    tags = [row["tag"] for row in rows]
    for axes, name, title in zip(
        found,
        ("mean", "variance", "own"),
        ("mean distance of two words", "variance of the distance", "its own words recovered (MAP)"),
        strict=True,
    ):
        spans = None
        if name == "own":
            spans = np.array([[abs(end - row[name]) for end in row["own_ci"]] for row in rows]).T
        axes.bar(tags, [row[name] for row in rows], color=GOOD, yerr=spans, ecolor=BAD)
        axes.set_title(title, fontsize=10)
        axes.tick_params(axis="x", rotation=60)
    return figure, "Geometry of the privacy space. " + "; ".join(
        f"{row['tag']}: {row['words']} words, mean {number(row['mean'])}, variance "
        f"{number(row['variance'], 3)}, recovered {number(row['own'])}"
        for row in rows
    )


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
    figure, found = sheet(10.4, 1.6 + 0.36 * len(mechanisms), 4)
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
