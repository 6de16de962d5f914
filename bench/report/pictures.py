"""The report's pictures, each with an alternative text that states its figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from matplotlib import rc_context

from bench.report import comparing
from bench.report.names import Drawn, Row

__all__ = ["Picture", "draw"]

_DPI: Final = 120


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
    "cosine": comparing.tradeoff("cosine"),
    "accuracy": comparing.tradeoff("accuracy"),
    "tails": comparing.tails,
    "people": comparing.people,
}
