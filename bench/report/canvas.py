"""What the pictures share: colours and markers.

Why it is here: a mechanism looks the same in every picture.
"""

from __future__ import annotations

from typing import Any, Final

from matplotlib.figure import Figure

__all__ = ["BAD", "GOOD", "SHADES", "Drawn", "Row", "costs", "style"]

Row = dict[str, Any]
Drawn = tuple[Figure, str] | None
"""A picture and its alternative text, or None where the result has no figures for it."""

GOOD: Final = "#0072B2"
BAD: Final = "#D55E00"
SHADES: Final = {"clear": "#000000", "light": "#56B4E9", "balanced": "#0072B2", "strong": "#003f63"}
"""Of the levels."""
# Okabe and Ito's colours, told apart by the colour-blind; markers tell them apart in grey.
_STYLES: Final = {
    "pct2t.v1": (GOOD, "o"),
    "t2t.v1": ("#56B4E9", "s"),
    "pct2t.v1, full width": (BAD, "v"),
    "t2t.v1, full width": ("#E69F00", "^"),
    "SanText": ("#009E73", "D"),
    "CusText": ("#CC79A7", "P"),
    "token-embedding.v1": ("#3B3B98", "*"),
    "token-embedding, full width": ("#8C6D31", "X"),
    "PII scrubbing": ("#666666", "h"),
    "none": ("#000000", "*"),
}


def costs(result: Row) -> dict[tuple[str, str], Row]:
    """Utilities by mechanism and level."""
    return {(row["mechanism"], row["level"]): row for row in result["measures"]["utility"]}


def style(mechanism: str) -> tuple[str, str]:
    """Colour and marker."""
    return _STYLES.get(mechanism, ("#999999", "."))
