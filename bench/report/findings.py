"""The figures' meaning, in sentences.

Every sentence is computed from its result, so text and figures cannot disagree.
"""

from __future__ import annotations

from bench.console import span
from bench.report.names import LEVELS, Row, costs, number

__all__ = ["costs_of_levels"]


def costs_of_levels(result: Row) -> list[str]:
    """Return a sentence on the benefit and cost of each level of our default."""
    default, cost = result["default"], costs(result)
    clear = cost["none", "clear"]
    strongest = {
        row["level"]: row
        for row in result["strongest"]
        if row["sees"] == "word" and row["mechanism"] == default
    }
    return [
        _cost(strongest[level], cost[default, level], clear)
        for level in LEVELS
        if level in strongest
    ]


def _cost(row: Row, paid: Row, clear: Row) -> str:
    said = (
        f"{row['level']}: the strongest attack ({row['attack']}) recovers "
        f"{100 * row['success']:.0f} of 100 protected words "
        f"({span([100 * end for end in row['ci']], 0)})"
    )
    if row["names"] is not None:
        said += f", {100 * row['names']:.0f} of 100 names"
    said += f". Released sentences keep an embedding cosine of {number(paid['cosine'])}"
    if "accuracy" in paid:
        said += (
            f"; sentiment is classified correctly {100 * paid['accuracy']:.0f} times of 100, "
            f"{100 * clear['accuracy']:.0f} in the clear"
        )
    return f"{said}."
