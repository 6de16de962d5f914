"""The report's pictures, each with a text for those who do not see it.

Why it is here: people look before they read, and privacy without its price, or a price without its
privacy, is half a picture. Every picture is made from the result alone, and says in its alternative
text what it shows, with figures.
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

from bench.report import names
from bench.report.names import (
    BAD,
    GOOD,
    KINDS,
    LEVELS,
    UTILITIES,
    Drawn,
    Row,
    costs,
    number,
    style,
)  # fmt: skip

__all__ = ["Picture", "draw"]

_DPI: Final = 120


@dataclass(frozen=True)
class Picture:
    """A PNG of the page.

    Attributes:
        file: in the page's folder.
        alt: what it shows, for those who do not see it.
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


def _tradeoff(utility: str) -> Callable[[Row], Drawn]:
    """Utility over the strongest attack's success, one curve a mechanism, the clear text at its
    end."""

    def make(result: Row) -> Drawn:
        points = _points(result, utility)
        clear = costs(result).get(("none", "clear"), {})
        if not points or utility not in clear:
            return None
        figure, (axes,) = _sheet(5.2, 4.9)
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
                label=names.of(mechanism),
            )
            for level, place, height in zip(levels, x.tolist(), y.tolist(), strict=True):
                said.append(f"{names.of(mechanism)} {level}: {number(place)}, {number(height)}")
                if mechanism == result["default"]:
                    axes.annotate(
                        level, (place, height), (-6, 8), textcoords="offset points", ha="right"
                    )
        axes.plot(1, clear[utility], "*", color="#000000", markersize=11, label=names.of("none"))
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


def _tails(result: Row) -> Drawn:
    """The strongest attack on all words, rare words, names and numbers."""
    rows = [row for row in result["strongest"] if row["sees"] == "word"]
    levels = [level for level in LEVELS if any(row["level"] == level for row in rows)]
    mechanisms = [*dict.fromkeys(row["mechanism"] for row in rows)]
    figure, found = _sheet(
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
                    f"{names.of(row['mechanism'])} {level}, {KINDS[kind]}: {number(recovered)}"
                )
        axes.set(title=level, xlim=(0, 1), xlabel="recovered")
        axes.grid(alpha=0.25)
    found[0].set_yticks(range(len(mechanisms)), [names.of(name) for name in mechanisms[::-1]])
    for kind, label in KINDS.items():
        found[-1].plot([], [], shapes[kind], color=colours[kind], label=label)
    figure.legend(loc="outside lower center", ncols=len(KINDS), fontsize=9, frameon=False)
    return figure, "Recovered by the strongest attack. " + "; ".join(said) + "."


def _points(result: Row, utility: str) -> dict[str, dict[str, tuple[Any, ...]]]:
    """By mechanism and level: attack success, utility, and their intervals."""
    cost = costs(result)
    found: dict[str, dict[str, tuple[Any, ...]]] = {}
    for row in result["strongest"]:
        paid = cost.get((row["mechanism"], row["level"]), {})
        # The vectors never leave: only what is released has a price.
        if utility in paid and row["sees"] == "word":
            found.setdefault(row["mechanism"], {})[row["level"]] = (
                row["success"],
                paid[utility],
                row["ci"],
                paid[f"{utility}_ci"],
            )
    return found


def _sheet(
    width: float, height: float, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """An empty picture of so many inches, and its axes from left to right."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, list(figure.subplots(1, columns, squeeze=False, **options)[0])


_PICTURES: Final[dict[str, Callable[[Row], Drawn]]] = {
    "cosine": _tradeoff("cosine"),
    "accuracy": _tradeoff("accuracy"),
    "tails": _tails,
}
