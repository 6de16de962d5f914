"""The tables of `bench.attacks`.

Why it is here: what is measured should not know how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from rich.table import Table

from bench.console import share, table

__all__ = ["INVERSION", "strongest", "tables"]

INVERSION: Final = ("nearest", "nearest, rescaled", "MAP", "MAP in context")
"""The attacks that guess words, the weakest first."""

_TAILS = ("rare", "names", "numbers")
_WHAT = ("mechanism", "level", "sees", "attack")

Row = dict[str, Any]


def strongest(rows: list[Row]) -> list[Row]:
    """The attack that recovers most at each mechanism and level, apart for what it sees, and the
    empirical privacy 1 - X it leaves (RAPT v2 section IV-A), with its interval."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row["mechanism"], row["level"], row["sees"]
        if row["attack"] in INVERSION and (
            key not in best or row["success"] > best[key]["success"]
        ):
            best[key] = row
    return [
        {
            **{name: row[name] for name in _WHAT},
            "empirical_privacy": _left(row["success"]),
            "ci": _left(row["ci"]),
            **{name: _left(row[name]) for name in _TAILS},
            **{f"{name}_ci": _left(row[f"{name}_ci"]) for name in _TAILS},
        }
        for row in best.values()
    ]


def _left(found: Any) -> Any:
    """What a success leaves, or the ends of an interval; nothing of nothing."""
    if isinstance(found, list):
        return [1 - end for end in reversed(found)]
    return None if found is None else 1 - found


def tables(result: Row) -> Iterator[Table | str]:
    """What was recovered, and what is left."""
    yield table(
        "success of the attacks, 95 % interval",
        _WHAT,
        ("success", "interval", *_TAILS, "without the text"),
        (
            (
                *(row[name] for name in _WHAT),
                share(row["success"]),
                _span(row),
                *(share(row[name]) for name in _TAILS),
                share(row.get("majority")),
            )
            for row in (*result["clear"]["rows"], *result["rows"])
        ),
    )
    yield table(
        "empirical privacy against the strongest attack",
        _WHAT,
        ("1 - X", "interval", *_TAILS),
        (
            (
                *(row[name] for name in _WHAT),
                share(row["empirical_privacy"]),
                _span(row),
                *(share(row[name]) for name in _TAILS),
            )
            for row in result["strongest"]
        ),
    )
    yield table(
        "what is left for use",
        ("mechanism", "level"),
        ("SST-2", "interval", "cosine", "interval"),
        (
            (
                *(row[name] for name in ("mechanism", "level")),
                *_figure(row, "accuracy"),
                *_figure(row, "cosine"),
            )
            for row in result["utility"]
        ),
    )
    if broken := result["clear"]["failed"]:
        yield f"BROKEN, so their low scores prove nothing: {broken}"
    else:
        yield "every attack reaches on clear text what its definition implies"


def _figure(row: Row, name: str) -> tuple[str, str]:
    return (share(row[name]), _span(row, f"{name}_ci")) if name in row else ("", "")


def _span(row: Row, ci: str = "ci") -> str:
    return " to ".join(share(end) for end in row[ci])
