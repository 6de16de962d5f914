"""Compares the results of `smoke.py` on two machines, within stated tolerances.

Kernels for int8 differ between instruction sets. So a tag's probability may differ a little (up to
7e-3 was seen), and, rarely, the tag itself. With float32, rounding may differ in the last digits. A
noisy vector that lies just between two words may then fall to the other word. All else must be
equal.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.table import Table

PROBABILITY: Final = 1e-2
"""Largest difference of a tag's probability."""
VECTOR: Final = 1e-5
"""Largest difference of a coordinate."""
EQUAL: Final = 0.99
"""Least share of words that must be the same."""
COSINE: Final = 0.999
"""Least cosine of two embeddings of one text."""
LABELS: Final = 0.99
"""Least share of texts that get the same label at home."""
STATES: Final = 0.995
"""Least cosine of two states of the encoder, the same bound as against torch on one machine.
Processors' kernels also round its activations differently."""


@dataclass(frozen=True)
class Check:
    """One figure and its allowed range."""

    name: str
    measured: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the figure lies in the allowed range; NaN does not."""
        above = self.least is None or self.measured >= self.least
        return above and (self.most is None or self.measured <= self.most)

    @property
    def demand(self) -> str:
        """The bound in words."""
        return f"at most {self.most:g}" if self.least is None else f"at least {self.least:g}"


FACTS: Final = {
    "health": "SERVING",
    "the bundle's id": True,
    "same bytes for the same text": True,
    "white space and marks kept": True,
    "some words replaced": True,
    "exit status": 0,
}
"""What must be true of the daemon on either machine."""


def checks(ours: dict[str, Any], theirs: dict[str, Any]) -> list[Check]:
    """Return the checks that two results of `smoke.py` must pass."""

    def same(name: str, part: str, key: str = "", least: float = EQUAL) -> Check:
        pair = [side[part][key] if key else side[part] for side in (ours, theirs)]
        return Check(name, _share(*pair), least=least)

    def near(name: str, part: str, key: str, most: float) -> Check:
        return Check(name, _distance(ours[part][key], theirs[part][key]), most=most)

    found = [
        same("same bundle", "bundle", least=1),
        same("tags", "tagger", "tags"),
        near("probabilities of tags", "tagger", "confidence", PROBABILITY),
        same("words looked up", "vectors", "ids", least=1),
        near("vectors of words", "vectors", "words", VECTOR),
        near("seeded noise", "vectors", "noise", VECTOR),
        same("released words", "released"),
        same("released words, exact search", "released exactly"),
        same("nearest words, exact", "search", "exact"),
        same("nearest words, graph built here", "search", "graph"),
        same("the daemon's tags", "daemon", "tags"),
        same("what the daemon protects", "daemon", "protected"),
    ]
    for side in (ours, theirs):
        wrong = sum(side["daemon"]["facts"].get(name) != fact for name, fact in FACTS.items())
        found.append(Check(f"wrong facts, {side['machine']} daemon", wrong, most=0))
    if ours["denoiser"] or theirs["denoiser"]:
        cosine = _cosine(ours["denoiser"], theirs["denoiser"])
        found.append(Check("embeddings, least cosine", cosine, least=COSINE))
    if ours["at home"] or theirs["at home"]:
        one, other = (side["at home"] or {"labels": [], "states": None} for side in (ours, theirs))
        found.append(Check("labels at home", _share(one["labels"], other["labels"]), least=LABELS))
        cosine = _cosine(one["states"], other["states"])
        found.append(Check("states under an adapter, least cosine", cosine, least=STATES))
    return found


def _share(ours: list[Any] | str, theirs: list[Any] | str) -> float:
    """Share of places that hold the same; 0 where the lengths differ."""
    if len(ours) != len(theirs) or not ours:
        return 0.0
    same: int = sum(one == other for one, other in zip(ours, theirs, strict=True))
    return same / len(ours)


def _distance(ours: list[Any], theirs: list[Any]) -> float:
    """Largest difference of two numbers in one place; infinite where the shapes differ."""
    one, other = np.array(ours, np.float64), np.array(theirs, np.float64)
    if one.shape != other.shape or not one.size:
        return math.inf
    largest: float = np.abs(one - other).max().item()
    return largest


def _cosine(ours: list[list[float]] | None, theirs: list[list[float]] | None) -> float:
    """Least cosine of two rows in one place; -1 where the shapes differ."""
    one, other = np.array(ours or [], np.float64), np.array(theirs or [], np.float64)
    if one.shape != other.shape or not one.size:
        return -1.0
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    least: float = ((one * other).sum(axis=1) / lengths).min().item()
    return least


def main() -> None:
    """Prints a table and, as the last line, one JSON object; fails where a check does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ours", type=Path, help="written by smoke.py on this machine")
    parser.add_argument("theirs", type=Path, help="written by smoke.py on the other one")
    arguments = parser.parse_args()
    ours, theirs = (json.loads(file.read_bytes()) for file in (arguments.ours, arguments.theirs))
    found = checks(ours, theirs)
    table = Table(title=f"{theirs['machine']} against {ours['machine']}, the same seeds")
    for heading in ("", "measured", "demanded", ""):
        table.add_column(heading)
    for check in found:
        verdict = "[green]yes" if check.holds else "[red]NO"
        table.add_row(check.name, f"{check.measured:.6g}", check.demand, verdict)
    console = Console()
    console.print(table)
    for part in ("denoiser", "at home"):
        if not ours[part]:
            console.print(f"no {part.replace('at home', 'encoder')} in this bundle")
    passed = all(check.holds for check in found)
    seconds = {side["machine"]: side["seconds"] for side in (ours, theirs)}
    rows = [asdict(check) | {"holds": check.holds} for check in found]
    console.print("PASS" if passed else "FAIL")
    print(json.dumps({"passed": passed, "checks": rows, "seconds": seconds}))
    sys.exit(not passed)


if __name__ == "__main__":
    main()
