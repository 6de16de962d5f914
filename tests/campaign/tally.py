"""What was tried, what went wrong, and how to see it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["FAULTS", "Tally", "table"]

FAULTS: Final = ("lost", "leaked", "crossed", "unexplained")
"""Something acknowledged is gone; clear text is where it must not be; one's is another's; none of
what a trial may end with."""


@dataclass
class Tally:
    """The trials of one kind.

    Attributes:
        what: is tried.
        command: shows one trial again, with its number in place of ``{}``.
        ends: how trials ended, by number.
        findings: a line for each fault.
        seconds: that they took.
    """

    what: str
    command: str
    count: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def ended(self, how: str) -> None:
        """A trial ended as it may."""
        self.count += 1
        self.ends[how] += 1

    def fault(self, kind: str, trial: int, seen: str) -> None:
        """A trial ended otherwise."""
        assert kind in FAULTS
        self.count += 1
        self.faults[kind] += 1
        self.findings.append(f"{kind}: {seen}; again: {self.command.format(trial)}")

    def to_dict(self) -> dict[str, Any]:
        """For the one JSON object."""
        return {
            "count": self.count,
            "seconds": round(self.seconds),
            **{kind: self.faults[kind] for kind in FAULTS},
            "ends": dict(sorted(self.ends.items())),
            "figures": self.figures,
            "findings": self.findings,
        }


def table(tallies: Sequence[Tally]) -> str:
    """As Markdown."""
    lines = [f"| what | count | {' | '.join(FAULTS)} | seconds |", "|---" + 6 * "|--:" + "|"]
    for tally in tallies:
        found = " | ".join(str(tally.faults[kind]) for kind in FAULTS)
        lines.append(f"| {tally.what} | {tally.count:,} | {found} | {tally.seconds:,.0f} |")
    return "\n".join(lines)
