"""The report's pictures, each with an alternative text that states its figures.

Pictures, tables and sentences call one thing by one name, and a mechanism looks the same in every
picture.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sottovoce.core.privacy.policies import LEVELS

__all__ = ["LEVELS", "Picture", "Row", "costs", "draw", "number"]

_DPI: Final = 120
Row = dict[str, Any]
Drawn = tuple[Figure, str] | None
"""A picture and its alternative text, or None where the result has no figures for it."""

GOOD: Final = "#0072B2"
BAD: Final = "#D55E00"
SHADES: Final = {"clear": "#000000", "light": "#56B4E9", "balanced": "#0072B2", "strong": "#003f63"}
"""Of the levels."""
# Okabe and Ito's colours, told apart by the colour-blind; markers tell them apart in grey.
_STYLES: Final = {
    "pct2t.v2": (GOOD, "o"),
    "pct2t.v1": ("#E69F00", "^"),
    "t2t.v1": ("#56B4E9", "s"),
    "token-embedding.v1": ("#3B3B98", "*"),
    "none": ("#000000", "*"),
}

UTILITIES: Final = {"accuracy": "sentiment accuracy", "cosine": "embedding cosine"}
KINDS: Final = {"all": "all words", "rare": "rare words", "names": "names", "numbers": "numbers"}

_NAMES: Final = {
    "pct2t.v2": "PCT2T",
    "pct2t.v1": "PCT2T as published",
    "t2t.v1": "T2T",
    "token-embedding.v1": "token embeddings",
    "none": "no privacy",
}


def name_of(mechanism: str) -> str:
    """Return the name of a mechanism."""
    return _NAMES.get(mechanism, mechanism)


def number(value: Any, digits: int = 2) -> str:
    """A share as the page writes it; nothing where there is none.

    >>> number(0.123), number(1.0), number(None)
    ('.12', '1.00', '')
    """
    if value is None:
        return ""
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def costs(result: Row) -> dict[tuple[str, str], Row]:
    """Return the utilities by mechanism and level."""
    return {(row["mechanism"], row["level"]): row for row in result["utility"]}


def style(mechanism: str) -> tuple[str, str]:
    """Return colour and marker."""
    return _STYLES.get(mechanism, ("#999999", "."))


def sheet(
    width: float, height: float, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return an empty picture, sized in inches, and its axes from left to right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **options)[0])


def tradeoff(utility: str) -> Callable[[Row], Drawn]:
    """Utility over the strongest attack's success, one curve a mechanism, the clear text at its
    end."""

    def make(result: Row) -> Drawn:
        points = _points(result, utility)
        clear = costs(result).get(("none", "clear"), {})
        if not points or utility not in clear:
            return None
        figure, (axes,) = sheet(5.2, 4.9)
        said = []
        for mechanism, found in points.items():
            levels = dict(sorted(found.items(), key=lambda each: float(each[1][0])))
            colour, marker = style(mechanism)
            x, y, x_ci, y_ci = (np.array(each) for each in zip(*levels.values(), strict=True))
            axes.errorbar(
                x,
                y,
                xerr=np.abs(x_ci.T - x),
                yerr=np.abs(y_ci.T - y),
                color=colour,
                marker=marker,
                markersize=8 if mechanism == result["default"] else 6,
                linewidth=2.2 if mechanism == result["default"] else 1.1,
                elinewidth=0.8,
                label=name_of(mechanism),
            )
            for level, place, height in zip(levels, x.tolist(), y.tolist(), strict=True):
                said.append(f"{name_of(mechanism)} {level}: {number(place)}, {number(height)}")
                if mechanism == result["default"]:
                    axes.annotate(
                        level, (place, height), (-6, 8), textcoords="offset points", ha="right"
                    )
        axes.plot(1, clear[utility], "*", color="#000000", markersize=11, label=name_of("none"))
        axes.set(
            xlabel="recovered by the strongest attack\n(share of protected words)",
            ylabel=UTILITIES[utility],
            title="better: up and to the left",
            xlim=(0, 1.03),
        )
        figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
        axes.grid(alpha=0.25)
        return figure, (
            f"{UTILITIES[utility].capitalize()} over the share recovered by the strongest attack. "
            + "; ".join(said)
            + f"; no privacy: 1, {number(clear[utility])}."
        )

    return make


def tails(result: Row) -> Drawn:
    """The strongest attack on all words, rare words, names and numbers."""
    rows = [row for row in result["strongest"] if row["sees"] == "word"]
    levels = [level for level in LEVELS if any(row["level"] == level for row in rows)]
    mechanisms = [*dict.fromkeys(row["mechanism"] for row in rows)]
    figure, found = sheet(
        1.5 + 3.4 * len(levels), 1.4 + 0.42 * len(mechanisms), len(levels), sharey=True
    )
    shapes = dict(zip(KINDS, ("o", "D", "^", "s"), strict=True))
    colours = dict(zip(KINDS, (GOOD, "#009E73", BAD, "#CC79A7"), strict=True))
    said = []
    for axes, level in zip(found, levels, strict=True):
        for row in (row for row in rows if row["level"] == level):
            y = len(mechanisms) - 1 - mechanisms.index(row["mechanism"])
            for place, kind in enumerate(KINDS):
                recovered = row["success"] if kind == "all" else row[kind]
                ends = row["ci"] if kind == "all" else row[f"{kind}_ci"]
                if recovered is None:
                    continue
                height = y + 0.24 - 0.16 * place
                axes.plot(ends, [height] * 2, color=colours[kind], linewidth=1)
                axes.plot(recovered, height, shapes[kind], color=colours[kind], ms=5)
                said.append(
                    f"{name_of(row['mechanism'])} {level}, {KINDS[kind]}: {number(recovered)}"
                )
        axes.set(title=level, xlim=(0, 1), xlabel="recovered")
        axes.grid(alpha=0.25)
    found[0].set_yticks(range(len(mechanisms)), [name_of(name) for name in mechanisms[::-1]])
    for kind, label in KINDS.items():
        found[-1].plot([], [], shapes[kind], color=colours[kind], label=label)
    figure.legend(loc="outside lower center", ncols=len(KINDS), fontsize=9, frameon=False)
    return figure, "Recovered by the strongest attack. " + "; ".join(said) + "."


def people(result: Row) -> Drawn:
    """Attributes, entities and averaging by level, beside the success on clear text."""
    rows = [*result["clear"]["rows"], *result["rows"]]
    kinds = [
        ("gender", "gender of the author"),
        ("age group", "age group of the author"),
        ("NER, F1", "entities found (F1)"),
    ]
    kinds += [
        (name, f"{name.split(',')[0].replace('averaging', 'averaging over')} releases,{where}")
        for name, where in (
            (row["attack"], row["attack"].split(",")[1])
            for row in rows
            if row["attack"].startswith("averaging")
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


def _points(result: Row, utility: str) -> dict[str, dict[str, tuple[Any, ...]]]:
    """Attack success and utility with their intervals, by mechanism and level."""
    cost = costs(result)
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for row in result["strongest"]:
        paid = cost.get((row["mechanism"], row["level"]), {})
        # Word mechanisms keep their vectors on the device, so only their releases are priced.
        tokens = row["mechanism"].startswith("token")
        if utility in paid and (row["sees"] == "word" or tokens):
            found.setdefault(row["mechanism"], {})[row["level"]] = (
                row["success"],
                paid[utility],
                row["ci"],
                paid[f"{utility}_ci"],
            )
    return found


@dataclass(frozen=True)
class Picture:
    """A PNG of the page.

    Attributes:
        file: its name in the page's folder.
        alt: its content in words, for screen readers.
    """

    file: Path
    alt: str


def draw(result: Row, folder: Path) -> dict[str, Picture]:
    """Every picture that the result has figures for, by name.

    Args:
        result: of `bench.attacks.run.measure`.
        folder: where the PNGs go.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, Picture] = {}
    for name, make in _PICTURES.items():
        with rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
            drawn = make(result)
            if drawn is None:
                continue
            figure, alt = drawn
            made[name] = Picture(folder / f"{name}.png", alt)
            figure.savefig(made[name].file, dpi=_DPI)
    return made


_PICTURES: Final[dict[str, Callable[[Row], Drawn]]] = {
    "cosine": tradeoff("cosine"),
    "accuracy": tradeoff("accuracy"),
    "tails": tails,
    "people": people,
}
