"""Excuses of mutants are complete and single."""

from __future__ import annotations

import re

from soak.mutation.__main__ import judged, killed, scores
from soak.mutation.runs import ROOT, Mutant, Outcome
from soak.mutation.suite import Excuse, Module, Suite

MODULE = Module(
    "core/sottovoce/core/privacy/noise.py", ("tests/unit/core/privacy/test_noise.py",), ()
)


def excuse(line: str, mutant: str, module: str = MODULE.name) -> Excuse:
    return Excuse(module, line, mutant, "it draws the same")


def test_an_excuse_excuses_only_its_own_mutation() -> None:
    outcome = Outcome(
        (
            Mutant("a", "killed"),
            Mutant("b", "timeout"),
            Mutant("c", "survived", "x > 0", "x >= 0"),
            Mutant("d", "survived", "x > 0", "x > 1"),
            Mutant("e", "no tests", "return x", "return None"),
        ),
        complete=True,
    )
    fitting, elsewhere = excuse("x > 0", "x >= 0"), excuse("x > 0", "x > 1", "edge/state/ledger")
    gone, wide = excuse("y > 0", "y >= 0"), excuse("x > 0:  # why", "x >= 0:  # why")
    found = judged(
        MODULE,
        "if x > 0:  # why\n    return x",
        outcome,
        Suite((MODULE,), (fitting, elsewhere, gone, wide)),
    )
    assert (found["mutants"], found["killed"], found["excused"]) == (5, 2, 1)
    assert [mutant["name"] for mutant in found["survivors"]] == ["d", "e"]
    assert [left["line"] for left in found["stale"]] == ["y > 0"]
    assert killed([found], excusing=True) == 2 / 4
    assert killed([found], excusing=False) == 2 / 5


def test_the_list_names_files_once_and_excuses_lines_that_are_there() -> None:
    suite = Suite.load(ROOT / "soak" / "mutants.toml")
    sources = [module.source for module in suite.modules]
    assert len(sources) == len(set(sources))
    for module in suite.modules:
        for file in (
            module.source,
            *module.tests,
            *(test.split("::")[0] for test in module.without),
        ):
            assert (ROOT / file).is_file(), file
        assert not suite.stale(module, (ROOT / module.source).read_text("utf-8"))


def test_the_page_has_figures_of_listed_modules_only() -> None:
    page = (ROOT / "docs" / "mutation.md").read_text("utf-8")
    shown = re.findall(r"^\| ([a-z0-9_/]+)(?: [*])?(?: †)? \| \d", page, re.MULTILINE)
    listed = {module.name for module in Suite.load(ROOT / "soak" / "mutants.toml").modules}
    assert shown
    assert {*shown} <= listed


def test_mutants_that_were_not_tried_are_no_survivors_and_the_row_shows_it() -> None:
    outcome = Outcome((Mutant("a", "killed"),), complete=True, left=3)
    found = judged(MODULE, "", outcome, Suite((MODULE,), ()))
    assert (found["mutants"], found["survived"], found["left"]) == (1, 0, 3)
    shown = scores([found]).rows
    assert [row[0] for row in shown] == [f"{MODULE.name} †", "together †"]
