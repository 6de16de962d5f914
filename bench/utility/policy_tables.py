"""Policies held against one another at equal attack success: comparisons, verdicts, tables.

Why it is here: a policy that hides less keeps more accuracy, which says nothing. Each level of one
side is held against the curve of another at its own attack success, see `bench.attacks.frontier`;
documents and seeds are resampled for both alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bench.attacks.frontier import Point, against, interval_of
from bench.console import Table, share, span, table
from sottovoce.core.privacy.policies import DEFAULT

__all__ = ["CLEAR", "Side", "Study", "figures", "show", "verdict"]

CLEAR: Final = "clear"
"""The policy name of clear text."""
NEAR: Final = 0.01
"""Maximum drop of `names` from clear text."""

Row = dict[str, Any]


@dataclass(frozen=True, order=True)
class Side:
    """The source of releases: a policy and a level."""

    policy: str
    level: str

    def __str__(self) -> str:
        """The policy, which names a curve."""
        return self.policy


@dataclass(frozen=True)
class Study:
    """One task by one method.

    Attributes:
        points: of every side, text in the clear among them; all judged on the same documents.
    """

    task: str
    method: str
    points: dict[Side, Point]

    @property
    def _clear(self) -> Point:
        return next(point for side, point in self.points.items() if side.policy == CLEAR)

    def _curves(self) -> dict[str, list[Point]]:
        found: dict[str, list[Point]] = {}
        for side, point in self.points.items():
            if side.policy != CLEAR:
                found.setdefault(str(side), []).append(point)
        return found

    def _told(self, row: Row) -> Row:
        return {"task": self.task, "method": self.method, **row}

    def rows(self) -> Iterator[Row]:
        """Return attack success and accuracy of every side, with their intervals."""
        for side, point in self.points.items():
            named = {"side": str(side), "level": side.level}
            found: Row = {**named, "seeds": len(point.utility["accuracy"])}
            for name in ("all", "names", "known"):
                known = point.resampled.attack.get(name, np.ones(2))
                found[name], found[f"{name}_ci"] = interval_of(known)
            yield self._told({**found, **point.figures()})

    def comparisons(self) -> Iterator[Row]:
        """Compare the default with every other curve, and each other with the default's."""
        curves = self._curves()
        if DEFAULT not in curves:
            return
        for name, points in curves.items():
            if name == DEFAULT:
                continue
            for ours, theirs in ((curves[DEFAULT], points), (points, curves[DEFAULT])):
                for point in ours:
                    for row in against(point, theirs, self._clear.utility):
                        if row["on"] == "all":
                            yield self._told(row)

    def verdicts(self, comparisons: Sequence[Row]) -> Iterator[Row]:
        """Return verdicts on the default against other curves, and on `names` against clear."""
        for name in self._curves():
            some = [row for row in comparisons if name in (row["ours"], row["against"])]
            if name != DEFAULT and some:
                yield self._told({"of": DEFAULT, "against": name, "verdict": verdict(some)})
        for side, point in self.points.items():
            if side.policy == "names":
                replicates = [each.resampled.utility["accuracy"] for each in (point, self._clear)]
                difference, ci = interval_of(replicates[0] - replicates[1])
                found = "within" if ci[0] >= -NEAR else "not within" if ci[1] < -NEAR else "open"
                row = {"of": "names", "against": CLEAR, "difference": difference, "ci": ci}
                yield self._told({**row, "verdict": found})


def verdict(comparisons: Sequence[Row]) -> str:
    """Where the default's curve lies beside another's, beyond intervals.

    ``below`` or ``above`` where some point says so and none the opposite, ``crosses`` where both
    do, ``on`` where none does.
    """
    above, below = (
        any(row["verdict"] == (mine if row["ours"] == DEFAULT else other) for row in comparisons)
        for mine, other in (("ours", "theirs"), ("theirs", "ours"))
    )
    return "crosses" if above and below else "above" if above else "below" if below else "on"


def figures(studies: Iterable[Study]) -> dict[str, list[Row]]:
    """Return all figures in JSON types."""
    found: dict[str, list[Row]] = {"rows": [], "comparisons": [], "verdicts": []}
    for study in studies:
        compared = [*study.comparisons()]
        found["rows"] += study.rows()
        found["comparisons"] += compared
        found["verdicts"] += study.verdicts(compared)
    return found


def show(result: dict[str, Any]) -> Iterator[Table | str]:
    """Return the tables."""
    yield table(
        "accuracy, and the share of content words that one attacker recovers (95 %)",
        ("task", "method", "policy", "level"),
        ("recovered", "", "of names", "texts known", "accuracy", ""),
        (
            (row["task"], row["method"], row["side"], row["level"],
             share(row["all"]), span(row["all_ci"]),
             share(row["names"]), share(row["known"]),
             share(row["accuracy"]), span(row["accuracy_ci"]))
            for row in result["rows"]
        ),
    )  # fmt: skip
    yield table(
        "at equal attack success: what each keeps",
        ("task", "method", "policy", "level", "against"),
        ("recovered", "its own", "the other's", "difference", "", ""),
        (
            (row["task"], row["method"], row["ours"], row["level"], row["against"],
             share(row["at"]), share(row["value"]), share(row["theirs"]),
             share(row["difference"], sign="+"), span(row["ci"], sign="+"), row["verdict"])
            for row in result["comparisons"]
            if row["verdict"] != "out of reach"
        ),
    )  # fmt: skip
    for row in result["verdicts"]:
        said = f"{row['task']}, {row['method']}: {row['of']} against {row['against']}: "
        if "ci" in row:
            said += f"{share(row['difference'], sign='+')} ({span(row['ci'], sign='+')}): "
            said += f"{row['verdict']} {100 * NEAR:g} point" if row["verdict"] != "open" else "open"
        else:
            said += row["verdict"]
        yield said
