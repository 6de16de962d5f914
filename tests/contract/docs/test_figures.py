"""Figures and tables that several pages share agree with the page that holds them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from sottovoce.core.privacy.hiding import KINDS
from tests.support.documented import read
from tests.support.paths import ROOT

SMALL, FULL, PRESIDIO = "`personal`", "`personal`, finder `full`", "Presidio"
LEAK_FIGURES: Final = ("README.md", "docs/faq.md")
HISTORY: Final = "docs/lab_notes.md"


def text(page: str) -> str:
    """Return a page with each paragraph's lines joined, table rows and lists apart."""
    return re.sub(r"\n *(?=[^\s|*#-])", " ", (ROOT / page).read_text(encoding="utf-8"))


def rows(page: str, first: str) -> dict[str, dict[str, str]]:
    """Return the cells of the page's first table after ``first``, by row and column."""
    lines = (ROOT / page).read_text(encoding="utf-8").split(first, 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table: list[list[str]] = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    head, _, *body = table
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in body}


def span(kind: str, *columns: str) -> str:
    """Return the least and the greatest share of spans that stand whole, as pages write them."""
    found = rows("docs/personal.md", "## Figures")
    row = next(row for name, row in found.items() if name.startswith(f"{kind}, spans that stand"))
    shares = sorted((s for c in columns for s in row[c].split(" / ")), key=float)
    return f"{shares[0]} to {shares[-1]} %"


@pytest.mark.parametrize("page", LEAK_FIGURES)
def test_the_leaks_that_a_page_names_are_the_tables_least_and_most(page: str) -> None:
    persons, organisations = (span(kind, SMALL, FULL) for kind in ("persons", "organisations"))
    assert f"{persons} of the persons and {organisations} of the organisations" in text(page)


def test_presidios_leaks_in_the_readme_are_the_tables_least_and_most() -> None:
    persons, organisations = (span(kind, PRESIDIO) for kind in ("persons", "organisations"))
    assert f"With Presidio, another tool, it was {persons} and {organisations}" in text("README.md")


@pytest.mark.parametrize("page", ["docs/is_it_for_me.md", "docs/levels.md"])
def test_prompts_that_leave_as_typed_are_the_tables(page: str) -> None:
    row = rows("docs/personal.md", "## Figures")[
        "prompts without anything private that leave as typed"
    ]
    assert {f"{row[SMALL]} %", f"{row[FULL]} %"} <= set(re.findall(r"[\d.]+ %", text(page)))


def test_the_accuracy_in_the_faq_is_the_current_levels() -> None:
    measured = rows("docs/utility.md", "## What the levels cost")
    shown = rows("docs/faq.md", "### Does it cost accuracy?")
    assert {level.removesuffix(" (default)") for level in shown} == set(measured)
    for level, row in shown.items():
        accuracy = measured[level.removesuffix(" (default)")]["SST-2, one key"].split()[0]
        assert row["accuracy, %"] == accuracy, level


def test_the_daemons_memory_stands_in_one_table() -> None:
    peaks = [row["peak"] for row in rows("docs/tutorial_pi.md", "### Memory").values()]
    assert len(peaks) == 6
    pages = {*Path(ROOT / "docs").glob("*.md"), ROOT / "README.md"}
    pages -= {ROOT / "docs" / "tutorial_pi.md", ROOT / HISTORY}
    for page in pages:
        shown = set(re.findall(r"\d+ MB", page.read_text(encoding="utf-8")))
        assert not shown & set(peaks), page.name


def test_the_table_of_kinds_has_every_kind() -> None:
    found = rows("docs/personal.md", "## What is drawn")
    assert tuple(kind.strip("`") for kind in found) == KINDS


def test_files_that_the_readme_reads_are_in_the_repository() -> None:
    words = [part.words for typed in read("README.md")[0] for part in typed.parts]
    inputs = [w[w.index("--input") + 1] for w in words if "--input" in w]
    assert inputs
    assert all((ROOT / each).is_file() for each in inputs)
