"""Excuses of mutants are complete and single."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.mutation.__main__ import judged, killed
from soak.mutation.runs import ROOT, Mutant, Outcome, changed
from soak.mutation.suite import Excuse, Module, Suite
from sottovoce.core.errors import InvalidInput

DIFF = """--- src/sottovoce/core/privacy/noise.py
+++ src/sottovoce/core/privacy/noise.py
@@ -1,4 +1,3 @@
     first(
-        same,
-        gone,
-    )
+        same)
     last
"""
MODULE = Module(
    "core/sottovoce/core/privacy/noise.py", ("tests/unit/core/privacy/test_noise.py",), ()
)


def excuse(line: str, mutant: str, module: str = MODULE.name) -> Excuse:
    return Excuse(module, line, mutant, "it draws the same")


def test_a_change_is_told_by_its_lines_and_not_by_numbers() -> None:
    assert changed(DIFF) == ("same, gone, )", "same)")
    assert changed(DIFF.replace("-1,4 +1,3", "-71,4 +71,3")) == changed(DIFF)


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
    gone = excuse("y > 0", "y >= 0")
    found = judged(
        MODULE, "if x > 0:\n    return x", outcome, Suite((MODULE,), (fitting, elsewhere, gone))
    )
    assert (found["mutants"], found["killed"], found["excused"]) == (5, 2, 1)
    assert [mutant["name"] for mutant in found["survivors"]] == ["d", "e"]
    assert [left["line"] for left in found["stale"]] == ["y > 0"]
    assert killed([found], excusing=True) == 2 / 4
    assert killed([found], excusing=False) == 2 / 5


def test_sql_has_no_case_but_for_what_it_quotes() -> None:
    suite = Suite.load(ROOT / "soak" / "mutants.toml")
    asked = 'rows = store.rows("SELECT spent FROM ledger")'
    assert suite.is_spelling(asked, asked.replace("SELECT", "select"))
    assert not suite.is_spelling(asked, asked.replace("spent", "XXspent"))
    quoted = """rows = store.rows("SELECT id FROM jobs WHERE state = 'QUEUED'")"""
    assert suite.is_spelling(quoted, quoted.replace("SELECT", "select"))
    assert not suite.is_spelling(quoted, quoted.lower())
    assert not suite.is_spelling('b = "SELECTED"', 'b = "selected"')


def test_a_module_is_chosen_by_the_end_of_its_path() -> None:
    suite = Suite((MODULE,), ())
    assert suite.chosen(()) == suite.chosen(("noise",)) == suite.chosen(("privacy/noise",))
    for unknown in ("ise", "core", "ledger"):
        with pytest.raises(InvalidInput, match="core/privacy/noise"):
            suite.chosen((unknown,))


@pytest.mark.parametrize("wrong", ['module = "core/none"', 'reason = " "'])
def test_an_excuse_needs_a_module_and_a_reason(tmp_path: Path, wrong: str) -> None:
    right = {"module": '"core/privacy/noise"', "reason": '"it draws the same"'}
    key, _, value = wrong.partition(" = ")
    lines = [f"{name} = {text}" for name, text in (right | {key: value}).items()]
    file = tmp_path / "mutants.toml"
    file.write_text(
        f'wording = []\ncaseless = []\n[[module]]\nsource = "{MODULE.source}"\ntests = []\n'
        '[[excuse]]\nline = "a"\nmutant = "b"\n' + "\n".join(lines)
    )
    with pytest.raises(InvalidInput, match="incomplete"):
        Suite.load(file)


def test_every_module_and_every_test_of_the_suite_exists() -> None:
    for module in Suite.load(ROOT / "soak" / "mutants.toml").modules:
        for file in (
            module.source,
            *module.tests,
            *(test.split("::")[0] for test in module.without),
        ):
            assert (ROOT / file).is_file(), file
