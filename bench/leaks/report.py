"""The tables of `bench.leaks`, and whether the figures keep the promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bench.console import Table, table
from bench.leaks.corpora import GROUPS, OTHER_WORDS

__all__ = ["PROMISES", "kept_promises", "tables"]

Figures = dict[str, Any]

PROMISES: Final = {
    ("identifiers", "spans"): 0.0,
    ("identifiers", "passed"): 0.0,
    **{
        (group, what): limit
        for group in ("persons", "places", "organisations", "nationalities")
        for what, limit in (("spans", 0.01), ("words", 0.03))
    },
    (OTHER_WORDS, "drawn"): 0.05,
}
"""Of each group, the share that may come through at most: of whole spans, of words in them, and of
words that nothing was drawn for. (A lone digit of a number that is drawn anew is the same one time
in ten, and must be: else it would tell which it was not.) Last, what that may cost."""


def kept_promises(sides: list[Figures]) -> list[Figures]:
    """Return each promise and the worst figure of its sides, by policy."""
    found: list[Figures] = []
    for policy in dict.fromkeys(side["policy"] for side in sides if side["promises"]):
        mine = [side for side in sides if side["promises"] and side["policy"] == policy]
        for (group, what), limit in PROMISES.items():
            found += _worst(mine, policy, group, what, limit)
    return found


def _worst(
    sides: list[Figures], policy: str, group: str, what: str, limit: float
) -> Iterator[Figures]:
    measured = [(side["groups"][group][what], side) for side in sides if group in side["groups"]]
    if not measured:
        return
    rate, side = max(measured, key=lambda each: each[0]["share"])
    yield {
        "policy": policy,
        "group": group,
        "what": what,
        "worst": rate["share"],
        "ci": rate["ci"],
        "level": side["level"],
        "limit": limit,
        "kept": rate["share"] <= limit,
    }


def tables(result: Figures) -> Iterator[Table | str]:
    """Return the tables of leaked spans and words by group, of the cost, and of the promises."""
    sides: list[Figures] = result["sides"]
    groups = [group for group in GROUPS if any(group in side["groups"] for side in sides)]
    for what, title in (
        ("spans", "marked spans released as they were, %"),
        ("words", "words of marked spans released as they were, %"),
    ):
        rows = (
            (*_name(side), *(_cell(side["groups"].get(group), what) for group in groups))
            for side in sides
        )
        yield table(title, ("release", "policy", "level"), groups, rows)
    yield table(
        "words that are neither names nor numbers, %",
        ("release", "policy", "level"),
        ("drawn", "released as they were", "all words, released as they were"),
        (
            (
                *_name(side),
                _cell(side["groups"].get(OTHER_WORDS), "drawn"),
                _cell(side["groups"].get(OTHER_WORDS), "words"),
                _rate(side["verbatim"]),
            )
            for side in sides
        ),
    )
    if result["promises"]:
        yield table(
            "the promise at its worst level",
            ("policy", "of", "share", "level", ""),
            ("worst, %", "at most, %"),
            (
                (
                    *(row[key] for key in ("policy", "group", "what", "level")),
                    "kept" if row["kept"] else "BROKEN",
                    _rate({"share": row["worst"], "ci": row["ci"]}),
                    f"{100 * row['limit']:.0f}",
                )
                for row in result["promises"]
            ),
        )


def _name(side: Figures) -> tuple[str, str, str]:
    return side["release"], side["policy"], side["level"]


def _cell(group: Figures | None, what: str) -> str:
    return "" if group is None else _rate(group[what])


def _rate(rate: Figures | None) -> str:
    if rate is None or rate["share"] is None:
        return ""
    low, high = rate["ci"]
    return f"{100 * rate['share']:.1f} ({100 * low:.1f}-{100 * high:.1f})"
