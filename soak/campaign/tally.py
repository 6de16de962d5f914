"""Results of the trials: counts, findings, and the commands that repeat a trial."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

FAULTS: Final = ("lost", "leaked", "crossed", "unexplained")
"""Acknowledged data is gone; clear text is in a forbidden place; a tenant got another's data; any
other unexpected end of a trial.
"""


@dataclass
class Tally:
    """The trials of one kind.

    Attributes:
        what: description of the trials.
        command: repeats one trial, with its number in place of ``{}``.
        ends: number of trials by result.
        findings: a line for each fault.
        seconds: duration; the durations of parallel pieces are added up.
        processor: processor seconds, without processes that still run.
    """

    what: str
    command: str
    count: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    processor: float = 0.0

    @classmethod
    def merged(cls, tallies: Sequence[Tally]) -> Tally:
        """Add up several tallies of the same kind; of figures take the largest."""
        whole = cls(tallies[0].what, tallies[0].command)
        for each in tallies:
            whole.count += each.count
            whole.ends += each.ends
            whole.faults += each.faults
            whole.findings += each.findings
            whole.seconds += each.seconds
            whole.processor += each.processor
            for name, value in each.figures.items():
                whole.figures[name] = max(value, whole.figures.get(name, value))
        return whole

    def ended(self, how: str) -> None:
        """Count a trial with an allowed end."""
        self.count += 1
        self.ends[how] += 1

    def fault(self, kind: str, trial: int, seen: str) -> None:
        """Count a trial with a fault."""
        assert kind in FAULTS
        self.count += 1
        self.faults[kind] += 1
        self.findings.append(f"{kind}: {seen}; again: {self.command.format(trial)}")

    def look_into(self, log: str) -> None:
        """Count a fault if a daemon's log has a traceback."""
        if "Traceback" in log:
            found = log[log.index("Traceback") :][:600]
            self.fault("unexplained", 0, f"a traceback is in the log: {found}")

    def came_by(
        self,
        tried: Mapping[str, int],
        reached: Mapping[str, int],
        instead: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Record the share of named moments that were reached.

        A moment that was never reached was not tested; ``instead`` may describe the trial's result.
        """
        missed = [name for name in tried if not reached.get(name)]
        self.figures["named moments tried"] = len(tried)
        self.figures["named moments reached"] = len(tried) - len(missed)
        for name in missed:
            self.fault(
                "unexplained", 0, f"{name!r} was never reached {instead.get(name, '')[:300]}"
            )

    def line(self) -> str:
        """Return a line of progress: number of trials, duration and findings."""
        told = f"{self.what}: {self.count:,} in {self.seconds:,.0f} s"
        return "\n".join([f"{told}, {self.processor:,.0f} of a processor", *self.findings])

    def to_dict(self) -> dict[str, Any]:
        """Return the tally in JSON types."""
        return {
            "count": self.count,
            "seconds": round(self.seconds),
            "processor": round(self.processor),
            **{kind: self.faults[kind] for kind in FAULTS},
            "ends": dict(sorted(self.ends.items())),
            "figures": self.figures,
            "findings": self.findings,
        }


def table(tallies: Sequence[Tally]) -> str:
    """Return the tally as Markdown."""
    columns = ("what", "count", *FAULTS, "seconds", "of a processor")
    lines = [f"| {' | '.join(columns)} |", "|---" + (len(columns) - 1) * "|--:" + "|"]
    for tally in tallies:
        found = " | ".join(str(tally.faults[kind]) for kind in FAULTS)
        took = f"{tally.seconds:,.0f} | {tally.processor:,.0f}"
        lines.append(f"| {tally.what} | {tally.count:,} | {found} | {took} |")
    return "\n".join(lines)
