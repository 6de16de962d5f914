"""Print the tables of `bench.attacks`, without computing any figure."""

from __future__ import annotations

from typing import Any, Final

from bench.console import Table, share, span, table

__all__ = ["INVERSION", "strongest", "tables", "worked"]

INVERSION: Final = ("nearest", "nearest, rescaled", "MAP", "MAP in context")
"""The attacks that guess words, the weakest first."""

_TAILS = ("rare", "names", "numbers")
_WHAT = ("mechanism", "level", "sees", "attack")

Row = dict[str, Any]


def strongest(rows: list[Row]) -> list[Row]:
    """Return the strongest attack's row for each mechanism, level and observed data."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row["mechanism"], row["level"], row["sees"]
        if row["attack"] in INVERSION and (
            key not in best or row["success"] > best[key]["success"]
        ):
            best[key] = row
    return [*best.values()]


def tables(result: Row) -> list[Table]:
    """Return the tables: recovery of hidden words, recovery of clear text, and utility."""
    return [
        _attacked("success of the attacks, 95 % interval", result["rows"]),
        _attacked("the same attacks where nothing is hidden", result["clear"]["rows"]),
        table(
            "empirical privacy against the strongest attack (RAPT v2 section IV-A)",
            _WHAT,
            ("1 - X", "interval", *_TAILS),
            (
                (
                    *(row[name] for name in _WHAT),
                    _left(row["success"]),
                    span([1 - end for end in reversed(row["ci"])]),
                    *(_left(row[name]) for name in _TAILS),
                )
                for row in result["strongest"]
            ),
        ),
        table(
            "utility of the releases",
            ("mechanism", "level"),
            ("SST-2", "interval", "cosine", "interval"),
            (
                (
                    *(row[name] for name in ("mechanism", "level")),
                    *(share(row.get("accuracy")), span(row.get("accuracy_ci"))),
                    *(share(row["cosine"]), span(row["cosine_ci"])),
                )
                for row in result["utility"]
            ),
        ),
    ]


def _attacked(title: str, rows: list[Row]) -> Table:
    return table(
        title,
        _WHAT,
        ("success", "interval", *_TAILS, "without the text"),
        (
            (
                *(row[name] for name in _WHAT),
                share(row["success"]),
                span(row["ci"]),
                *(share(row[name]) for name in _TAILS),
                share(row.get("majority")),
            )
            for row in rows
        ),
    )


def _left(success: float | None) -> str:
    return share(None if success is None else 1 - success)


def worked(result: Row) -> str:
    """Return whether low scores of the attacks prove privacy."""
    if not result["clear"]["rows"]:
        return "not tested on clear text in this run"
    if broken := result["clear"]["failed"]:
        return f"BROKEN on clear text, so their low scores prove nothing: {', '.join(broken)}"
    return "every attack reaches on clear text what its definition implies"
