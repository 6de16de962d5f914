"""Would the tests notice faults in the code?

Small faults are put into the code for privacy, money and people's work, one at a time: a reversed
comparison, a changed number, a missing argument. A fault that no test notices has survived. Faults
that no test can or should notice are excused one by one, with a reason, in `soak/mutants.toml`. The
killed share is printed with and without the excused faults.

    python -m soak.mutation noise ledger
"""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from bench.console import STEPS, Table, parser, publish, table, track
from soak.mutation.runs import ROOT, Outcome, Workshop
from soak.mutation.suite import Module, Suite
from sottovoce.core.errors import SottovoceError

ENOUGH: Final = 0.95
"""The share of unexcused mutants that must be killed, over all chosen modules together."""
MOST_MEMORY: Final = 4 << 30
"""Bytes of a process: a mutant whose endless loop keeps what it makes would take all memory."""
COUNTS: Final = ("mutants", "killed", "excused", "survived")


def judged(module: Module, source: str, outcome: Outcome, suite: Suite) -> dict[str, Any]:
    """Return one module's figures, its survivors, and the excuses for removed lines."""
    own = {(excuse.line, excuse.mutant) for excuse in suite.excuses_of(module)}
    survivors = [
        mutant
        for mutant in outcome.survivors
        if (mutant.line, mutant.mutant) not in own
        and not suite.is_spelling(mutant.line, mutant.mutant)
    ]
    return {
        "module": module.name,
        "mutants": len(outcome.mutants),
        "killed": len(outcome.mutants) - len(outcome.survivors),
        "excused": len(outcome.survivors) - len(survivors),
        "survived": len(survivors),
        "complete": outcome.complete,
        "left": outcome.left,
        "survivors": [asdict(mutant) for mutant in survivors],
        "stale": [asdict(excuse) for excuse in suite.stale(module, source)],
    }


def killed(figures: list[dict[str, Any]], *, excusing: bool) -> float:
    """Return the killed share of all mutants, or of those without an excuse; 1 without any."""
    counted = sum(each["mutants"] - excusing * each["excused"] for each in figures)
    return sum(each["killed"] for each in figures) / counted if counted else 1.0


def scores(figures: list[dict[str, Any]]) -> Table:
    """One row a module, and the sum.

    A star marks rows whose earlier survivors alone were tried again, and a dagger rows of a part.
    """
    sums = [(each["module"], [each]) for each in figures] + [("together", figures)]
    return table(
        "",
        ("module",),
        ("mutants", "killed", "excused", "survived", "score, %", "of all, %"),
        (
            (
                name
                + ("" if all(row["complete"] for row in rows) else " *")
                + (" †" if any(row["left"] for row in rows) else ""),
                *(sum(row[key] for row in rows) for key in COUNTS),
                *(f"{100 * killed(rows, excusing=excusing):.1f}" for excusing in (True, False)),
            )
            for name, rows in sums
        ),
    )


def notes(figures: list[dict[str, Any]]) -> list[Text]:
    """The survivors with their diffs, and the excuses to take away."""
    survivors = [survivor for each in figures for survivor in each["survivors"]]
    stale = [excuse for each in figures for excuse in each["stale"]]
    return [
        *(Text(f"{found['name']}: {found['status']}\n{found['diff']}") for found in survivors),
        *(Text(f"{excuse['module']} has no more {excuse['line']!r} to excuse") for excuse in stale),
    ]


def main() -> int:
    asked = parser("mutation", __doc__)
    asked.add_argument("modules", nargs="*", help="ends of modules' paths: noise, state/ledger")
    asked.add_argument("--survivors", action="store_true", help="try only earlier survivors again")
    asked.add_argument("--only", nargs="+", default=[], help="globs: '*has_number*', '*_*5'")
    asked.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    asked.add_argument("--suite", type=Path, default=ROOT / "soak" / "mutants.toml")
    asked.add_argument("--build", type=Path, default=ROOT / "build" / "mutants")
    asked.add_argument("--tool", type=Path, default=ROOT / "build" / "mutmut")
    options = asked.parse_args()
    figures = []
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))  # of children too
    try:
        suite = Suite.load(options.suite)
        workshop = Workshop(
            options.build, options.tool, options.bundle.absolute(), options.jobs, suite.wording
        )
        for module in track(suite.chosen(tuple(options.modules)), "mutants"):
            STEPS.print(module.name, highlight=False)
            outcome = workshop.outcome(
                module, survivors_only=options.survivors, only=tuple(options.only)
            )
            source = (ROOT / module.source).read_text("utf-8")
            figures.append(judged(module, source, outcome, suite))
    except SottovoceError as error:
        STEPS.print(str(error), markup=False, highlight=False)
        return 2
    publish(options, {"modules": figures}, *notes(figures), scores(figures))
    return 0 if killed(figures, excusing=True) >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
