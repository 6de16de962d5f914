"""The tables of `bench.attacks`.

Why it is here: what is measured should not know how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table

from bench.console import share, table

__all__ = ["strongest", "tables"]

_INVERSION = ("nearest", "nearest, rescaled", "MAP", "MAP in context", "MLP", "autoencoder")
_TAILS = ("rare", "names", "numbers")
_WHAT = ("mechanism", "level", "sees", "attack")

Row = dict[str, Any]


def strongest(rows: list[Row]) -> list[Row]:
    """The attack that recovers most at each mechanism and level, apart for what it sees, and the
    empirical privacy 1 - X it leaves (RAPT v2 section IV-A), with its interval."""
    best: dict[tuple[str, str, str], Row] = {}
    for row in rows:
        key = row["mechanism"], row["level"], row["sees"]
        if row["attack"] in _INVERSION and (
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
    """What was recovered, what mechanisms give away and cost, and how they compare."""
    measures = result["measures"]
    yield table(
        "success of the attacks, 95 % interval",
        _WHAT,
        ("success", "interval", *_TAILS, "without the text", "squared error"),
        (
            (
                *(row[name] for name in _WHAT),
                share(row["success"]),
                _span(row),
                *(share(row[name]) for name in _TAILS),
                share(row.get("majority")),
                f"{row['mse']:.3f} of {row['mse_of_mean']:.3f}" if "mse" in row else "",
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
            for row in measures["strongest"]
        ),
    )
    measured = {(row["mechanism"], row["level"]): row for row in measures["mechanisms"]}
    yield table(
        "what mechanisms give away and cost",
        ("mechanism", "level"),
        ("nats a word", "stays", "worst", "outputs", "worst", "hubs", "SST-2", "cosine"),
        (
            (
                cost["mechanism"],
                cost["level"],
                *_given_away(measured.get((cost["mechanism"], cost["level"]))),
                share(cost.get("accuracy")),
                share(cost["cosine"]),
            )
            for cost in measures["utility"]
        ),
    )
    yield table(
        "utility at equal success of the strongest attack",
        ("ours", "level", "against", "equal on", "utility", "verdict"),
        ("at", "ours", "theirs", "difference", "interval"),
        (
            (
                *(row[name] for name in ("ours", "level", "against", "on", "utility", "verdict")),
                *(share(row[name]) for name in ("at", "value", "theirs")),
                share(row["difference"], sign="+"),
                _span(row, "+"),
            )
            for row in measures["comparisons"]
        ),
    )
    if broken := result["clear"]["failed"]:
        yield f"BROKEN, so their low scores prove nothing: {broken}"
    else:
        yield "every attack reaches on clear text what its definition implies"


def _span(row: Row, sign: str = "") -> str:
    return " to ".join(share(end, sign=sign) for end in row["ci"])


def _given_away(row: Row | None) -> tuple[str, ...]:
    if row is None:
        return ("",) * 6
    shares = (share(each, 2) for each in row["deniability"].values())
    return share(row["information"], 2), *shares, share(row["hubs"], sign="+")
