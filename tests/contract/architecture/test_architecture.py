"""Imports follow the plan, modules stay short, and the docs show both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import grimp
import pytest

from tests.support import architecture
from tests.support.architecture import Forbidden

LONGEST_MODULE = 600


@pytest.fixture(scope="module")
def built() -> grimp.ImportGraph:
    """The imports of this repository."""
    return architecture.graph()


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., grimp.ImportGraph]:
    """Builds a package ``house`` of modules with the imports given."""

    def build(**modules: str) -> grimp.ImportGraph:
        for name, code in modules.items():
            file = tmp_path / "house" / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            (file.parent / "__init__.py").touch()
            file.write_text(code)
        (tmp_path / "house" / "__init__.py").touch()
        monkeypatch.syspath_prepend(tmp_path)
        return architecture.graph(["house"])

    yield build
    for name in [name for name in sys.modules if name.partition(".")[0] == "house"]:
        del sys.modules[name]


PLAN = {"house": [["cellar"], ["hall", "kitchen"], ["attic"]]}
EMPTY = {"cellar": "", "hall": "", "kitchen": "", "attic": ""}


def test_nothing_runs_up_in_circles_or_where_it_must_not(built: grimp.ImportGraph) -> None:
    assert architecture.faults(built) == []


def test_a_house_in_order_has_no_fault(house: Callable[..., grimp.ImportGraph]) -> None:
    built = house(**{**EMPTY, "attic": "from house import hall", "hall": "import house.cellar"})
    assert architecture.faults(built, PLAN, ()) == []
    assert architecture.rooms(built, "house")["attic"] == {"hall"}


@pytest.mark.parametrize(
    ("modules", "fault"),
    [
        ({"cellar": "from house import attic"}, "cellar imports attic, which is not below it"),
        ({"hall": "from house import kitchen"}, "hall imports kitchen, which is not below it"),
        (
            {"hall": "def late():\n    from house.attic import x"},
            "hall imports attic, which is not below it",
        ),
        (
            {"hall__a": "import house.hall.b", "hall__b": "import house.hall.a"},
            "modules in a circle: house.hall.",
        ),
        ({"shed": ""}, "shed stands in no plan"),
        (
            {"cellar": "import torch", "attic": "import house.cellar"},
            "house.attic must not reach torch: house.attic -> house.cellar -> torch",
        ),
    ],
)
def test_each_fault_is_found_and_named(
    house: Callable[..., grimp.ImportGraph], modules: dict[str, str], fault: str
) -> None:
    wanted = {**EMPTY, **modules}
    if "hall__a" in wanted:
        del wanted["hall"]
    rules = [Forbidden("house.attic", ("torch",))]
    found = architecture.faults(house(**wanted), PLAN, rules)
    assert any(fault in sentence for sentence in found), found


def test_a_room_of_the_plan_that_is_gone_is_told(house: Callable[..., grimp.ImportGraph]) -> None:
    built = house(**{name: "" for name in EMPTY if name != "attic"})
    assert architecture.faults(built, PLAN, ()) == ["house: attic is not there"]


def test_an_arrow_that_others_imply_is_not_drawn() -> None:
    imports = {"attic": {"hall", "cellar"}, "hall": {"cellar"}, "cellar": set[str]()}
    assert architecture.reduced(imports) == [("attic", "hall"), ("hall", "cellar")]


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
