"""What the figures say, in words.

Why it is here: a claim that a person typed stays when the figures move on. Every sentence here is
made from the result it stands beside, the unwelcome ones too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bench.report import names
from bench.report.names import KINDS, LEVELS, UTILITIES, Row, number, signed

__all__ = ["Finding", "costs_of_levels", "dominance", "same_level", "wins_of_others"]


@dataclass(frozen=True)
class Finding:
    """A sentence, and whether it speaks for us (good), against (bad) or neither (open)."""

    text: str
    side: str


def dominance(result: Row) -> list[Finding]:
    """For each other mechanism, at which levels our default keeps more at equal attack success."""
    default = result["default"]
    rows = [
        row
        for row in result["measures"]["comparisons"]
        if row["ours"] == default and row["on"] == "all"
    ]
    return [_dominance(other, mine) for other, mine in _by(rows, "against").items()]


def _dominance(other: str, rows: list[Row]) -> Finding:
    """One sentence on all levels against ``other``."""
    shown, parts = [], []
    for name, some in _by(rows, "utility").items():
        levels = _by(some, "verdict")
        better = _in_order(levels.get("ours", []))
        worse = _in_order(levels.get("theirs", []))
        unclear = _in_order([*levels.get("undecided", []), *levels.get("out of reach", [])])
        said = []
        if better:
            said.append(f"higher at {names.words_of([_figures(row) for row in better])}")
        if worse:
            said.append(f"lower at {names.words_of([_figures(row) for row in worse])}")
        if unclear:
            what = names.words_of([_figures(row) for row in unclear])
            said.append(f"not told apart at {what}")
        parts.append(f"{UTILITIES[name]} is {names.words_of(said)}")
        shown.append((len(better), len(worse), len(unclear)))
    theirs = names.of(other)
    reached = [row for row in rows if row["reached"]]
    if not reached:
        return Finding(
            f"{theirs} cannot be held against our default at equal attack success: at its "
            "strongest it loses more to attackers than our default at any level.",
            "open",
        )
    if all(better and not worse and not unclear for better, worse, unclear in shown):
        lead = f"Our default dominates {theirs} at every level"
        side = "good"
    elif any(worse for _, worse, _ in shown):
        lead = f"Our default does not dominate {theirs}"
        side = "bad"
    else:
        whole = [
            level
            for level, some in _by(rows, "level").items()
            if all(row["verdict"] == "ours" for row in some)
        ]
        some_levels = [level for level in LEVELS if level in whole]
        lead = (
            f"Our default dominates {theirs} at {names.words_of(some_levels)} only"
            if some_levels
            else f"That our default dominates {theirs} is not shown at any level"
        )
        side = "open"
    return Finding(f"{lead}. At equal success of the attacker its {'; its '.join(parts)}.", side)


def wins_of_others(result: Row) -> list[Finding]:
    """Every comparison at equal attack success that another mechanism wins, outside the interval;
    and one sentence that says how many there were."""
    rows = result["measures"]["comparisons"]
    lost = [row for row in rows if row["verdict"] == "theirs"]
    counts = {verdict: len(some) for verdict, some in _by(rows, "verdict").items()}
    unclear = counts.get("undecided", 0) + counts.get("out of reach", 0)
    found = [
        Finding(
            f"Of {len(rows)} comparisons at equal attack success (our mechanisms, levels, other "
            "mechanisms, both utilities; equal on all, on rare words, on names), ours keeps more "
            f"in {counts.get('ours', 0)}, another in {len(lost)}, and {unclear} stay open. Where "
            "there is no difference, one in forty still falls on either side by chance.",
            "bad" if lost else "open",
        )
    ]
    found += [
        Finding(
            f"{names.of(row['against'])} keeps more {UTILITIES[row['utility']]} than "
            f"{names.of(row['ours'])} at {row['level']} where attackers recover as many of "
            f"{KINDS[row['on']]} ({number(row['at'])}): {number(row['theirs'])} against "
            f"{number(row['value'])}, {signed(row['difference'])} {_span(row)}.",
            "bad",
        )
        for row in sorted(lost, key=lambda row: float(row["difference"]))
    ]
    return found


def same_level(result: Row) -> list[Finding]:
    """Which loses less to attackers where both keep the same share of words: for our default, one
    sentence a kind of words and level in which a difference is shown."""
    rows = [row for row in result["measures"]["beside"] if row["ours"] == result["default"]]
    found = []
    for on, of_kind in _by(rows, "on").items():
        for side, verb in (("theirs", "more"), ("ours", "less")):
            some = [row for row in of_kind if row["verdict"] == side]
            if not some:
                continue
            parts = [
                f"{names.of(other)} at "
                + names.words_of(
                    [
                        f"{row['level']} ({number(row['value'])} against {number(row['theirs'])})"
                        for row in _in_order(mine)
                    ]
                )
                for other, mine in _by(some, "against").items()
            ]
            found.append(
                Finding(
                    f"Of {KINDS[on]}, attackers recover {verb} from our default than from "
                    f"{'; than from '.join(parts)}.",
                    "bad" if side == "theirs" else "good",
                )
            )
    return found


def costs_of_levels(result: Row) -> list[Finding]:
    """What each level of our default gives and costs."""
    default, measures = result["default"], result["measures"]
    cost = {(row["mechanism"], row["level"]): row for row in measures["utility"]}
    clear = cost["none", "clear"]
    strongest = {
        (row["mechanism"], row["level"]): row
        for row in measures["strongest"]
        if row["sees"] == "word"
    }
    found = []
    for level in LEVELS:
        if (default, level) not in strongest:
            continue
        row, paid = strongest[default, level], cost[default, level]
        low, high = row["ci"]
        said = (
            f"{level}: the strongest attack ({row['attack']}) recovers "
            f"{100 * (1 - row['empirical_privacy']):.0f} of 100 protected words "
            f"({100 * (1 - high):.0f} to {100 * (1 - low):.0f})"
        )
        if row["names"] is not None:
            said += f", {100 * (1 - row['names']):.0f} of 100 names"
        said += f". Released sentences keep an embedding cosine of {number(paid['cosine'])}"
        if "accuracy" in paid:
            said += (
                f"; sentiment is told right {100 * paid['accuracy']:.0f} times of 100, "
                f"{100 * clear['accuracy']:.0f} in the clear"
            )
        found.append(Finding(said + ".", "open"))
    return found


def _figures(row: Row) -> str:
    return f"{row['level']} ({signed(row['difference'])} {_span(row)})"


def _span(row: Row) -> str:
    return f"[{signed(row['ci'][0])}, {signed(row['ci'][1])}]"


def _in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: LEVELS.index(row["level"]) if row["level"] in LEVELS else 9)


def _by(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(row)
    return found
