"""Would the tests notice if the code were wrong?

Small faults are put into the code that privacy, money and people's work hang on, one at a time: a
comparison turned, a number changed, an argument left out. A fault that no test notices survived.
Those that nothing can or should notice are excused one by one, with a reason, in
`tests/mutants.toml`; the share killed is given with and without them.

    python -m bench.mutation noise ledger
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.mutation.runs import ROOT, Mutant, Outcome, Workshop
from bench.mutation.suite import Excuse, Module, Suite
from sottovoce.core.errors import SottovoceError

ENOUGH: Final = 0.95
"""The share of unexcused mutants that must be killed, over all chosen modules together."""


def judged(module: Module, outcome: Outcome, excuses: tuple[Excuse, ...]) -> dict[str, Any]:
    """The figures of one module, its survivors, and the excuses that no longer excuse any."""
    own = [excuse for excuse in excuses if excuse.module == module.name]
    reasons = {(excuse.line, excuse.mutant): excuse.reason for excuse in own}
    excused = [m for m in outcome.survivors if (m.line, m.mutant) in reasons]
    survivors = [m for m in outcome.survivors if (m.line, m.mutant) not in reasons]
    used = {(mutant.line, mutant.mutant) for mutant in excused}
    return {
        "module": module.name,
        "mutants": len(outcome.mutants),
        "killed": len(outcome.mutants) - len(outcome.survivors),
        "excused": len(excused),
        "survived": len(survivors),
        "complete": outcome.complete,
        "survivors": [asdict(mutant) for mutant in survivors],
        "idle_excuses": [asdict(e) for e in own if (e.line, e.mutant) not in used],
    }


def share(figures: list[dict[str, Any]], *, excusing: bool) -> float:
    """Killed among all mutants, or among those that are not excused; 1 where there are none."""
    killed = sum(each["killed"] for each in figures)
    counted = sum(each["mutants"] - excusing * each["excused"] for each in figures)
    return killed / counted if counted else 1.0


def table(figures: list[dict[str, Any]]) -> Table:
    """One row a module, and the sum."""
    whole = all(each["complete"] for each in figures)
    drawn = Table(caption=None if whole else "* only earlier survivors were tried again")
    for title in ("module", "mutants", "killed", "excused", "survived", "score", "of all"):
        name = title == "module"
        drawn.add_column(
            title, justify="left" if name else "right", no_wrap=name, min_width=30 * name
        )
    for name, rows in [(each["module"], [each]) for each in figures] + [("together", figures)]:
        drawn.add_row(
            name if all(row["complete"] for row in rows) else f"{name} *",
            *(
                str(sum(r[key] for r in rows))
                for key in ("mutants", "killed", "excused", "survived")
            ),
            *(f"{100 * share(rows, excusing=excusing):.1f} %" for excusing in (True, False)),
            end_section=rows == figures[-1:],
        )
    return drawn


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="ends of paths, as noise or state/ledger")
    parser.add_argument("--survivors", action="store_true", help="try only earlier survivors again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="mutants at once")
    parser.add_argument("--suite", type=Path, default=ROOT / "tests" / "mutants.toml")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--tool", type=Path, default=ROOT / "build" / "mutmut")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    told = Console(stderr=True)
    figures = []
    try:
        suite = Suite.load(options.suite)
        workshop = Workshop(options.build, options.tool, options.jobs, suite.wording)
        for module in suite.chosen(tuple(options.modules)):
            told.print(f"{module.name} ...", highlight=False)
            outcome = workshop.outcome(module, survivors_only=options.survivors)
            figures.append(judged(module, outcome, suite.excuses))
    except SottovoceError as error:
        told.print(str(error), markup=False, highlight=False)
        return 2
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        show(figures)
    return 0 if share(figures, excusing=True) >= ENOUGH else 1


def show(figures: list[dict[str, Any]]) -> None:
    """The table, the survivors with their diffs, and the excuses to take away."""
    console = Console()
    for each in figures:
        for found in each["survivors"]:
            mutant = Mutant(**found)
            console.print(f"{mutant.name}: {mutant.status}", style="bold", highlight=False)
            console.print(mutant.diff, markup=False, highlight=False, soft_wrap=True)
        for excuse in each["idle_excuses"]:
            line = f"{each['module']}: nothing is excused by {excuse['line']!r}"
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print(table(figures))


if __name__ == "__main__":
    sys.exit(main())
