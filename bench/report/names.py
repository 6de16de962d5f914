"""What things are called on the page, and how they look in its pictures.

Why it is here: pictures, tables and sentences should call one thing by one name, and a mechanism
looks the same in every picture.
"""

from __future__ import annotations

from typing import Any, Final

from matplotlib.figure import Figure

from sottovoce.core.privacy.policies import LEVELS

__all__ = ["BAD", "GOOD", "KINDS", "LEVELS", "SHADES", "UTILITIES"]
__all__ += ["Drawn", "Row", "costs", "number", "of", "style"]

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


def of(mechanism: str) -> str:
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
