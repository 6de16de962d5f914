"""The tests that `docs/reliability.md` and its history in the lab notes name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from soak.campaign.parts import PARTS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NOTES = (ROOT / "docs" / "lab_notes.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE + NOTES)


def _tests(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_pages_name_exists() -> None:
    assert len(NAMED) > 50
    for path, name in NAMED:
        file = ROOT / path
        assert file.is_file(), path
        if name:
            assert name in _tests(file), f"{path}::{name}"


def test_every_line_of_the_first_attack_is_held_by_a_test() -> None:
    lines = [line for line in NOTES.splitlines() if re.match(r"\| (H\d|M|L) \|", line)]
    assert len(lines) == 26
    assert {line.split("|")[1].strip() for line in lines} == {"H1", "H2", "H3", "H4", "M", "L"}
    for line in lines:
        assert "::test_" in line, line


def test_every_part_of_the_campaign_is_explained() -> None:
    for name in PARTS:
        assert re.search(rf"^\| [^|]*`{name}`", PAGE, re.MULTILINE), name


def test_the_page_says_how_many_trials_each_part_has() -> None:
    said = dict(re.findall(r"`([\w-]+)` \| ([\d,]+) \|", PAGE.partition("| part | trials |")[2]))
    for name, part in PARTS.items():
        if part.full:
            assert said[name] == f"{part.full:,}", name
