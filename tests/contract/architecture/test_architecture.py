"""Imports follow the plan, modules stay short, and the docs show both."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from tests.support import architecture

LONGEST_MODULE = 600


@pytest.fixture(scope="module")
def built() -> grimp.ImportGraph:
    """The imports of this repository."""
    return architecture.graph()


def test_nothing_runs_up_in_circles_or_where_it_must_not(built: grimp.ImportGraph) -> None:
    assert architecture.faults(built) == []


def test_the_docs_show_the_house_as_it_is(built: grimp.ImportGraph, tmp_path: Path) -> None:
    written = architecture.PAGE.read_text("utf-8")
    hint = "run `python -m tests.support.architecture --write`"
    assert architecture.page(written, built) == written, hint
    architecture.draw(built, tmp_path / "now.svg")
    assert (tmp_path / "now.svg").read_text() == architecture.PICTURE.read_text(), hint


def test_a_person_reads_any_module_in_one_sitting() -> None:
    folders = ("core", "edge", "cloud", "models", "bench", "examples", "soak", "tests", "docs")
    files = [file for folder in folders for file in (architecture.ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    lines = {str(file): len(file.read_text("utf-8").splitlines()) for file in files}
    assert {name: n for name, n in lines.items() if n > LONGEST_MODULE} == {}
