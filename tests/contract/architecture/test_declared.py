"""What our code imports is what its packages ask for: nothing comes along by chance."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT

PARTS = sorted(file.parent.name for file in ROOT.glob("*/pyproject.toml"))
REPOSITORY = ("bench", "clients", "deploy", "examples", "soak", "tests")
FROM_ELSEWHERE = {
    "pip": "comes with every environment",
    "presidio_analyzer": "runs in an environment of its own, see docs/personal.md",
    "sottovoce_client": "clients/python",
}
"""Imported, and declared nowhere."""

distributions = cache(packages_distributions)


@pytest.mark.parametrize("part", PARTS)
def test_a_package_asks_for_what_it_imports(part: str) -> None:
    assert not {*_undeclared(_imports(ROOT / part), _declared(part))}


@pytest.mark.parametrize("folder", REPOSITORY)
def test_the_environment_of_development_has_what_is_imported(folder: str) -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = {*map(_name, groups["dependency-groups"]["dev"])}.union(*map(_declared, PARTS))
    imported = (
        (name, file)
        for name, file in _imports(ROOT / folder)
        if name not in REPOSITORY and not file.startswith("home_assistant/")  # Home Assistant's own
    )
    assert not {*_undeclared(imported, declared)}


def _imports(folder: Path) -> Iterator[tuple[str, str]]:
    """The packages that are imported, and where."""
    for file in folder.rglob("*.py"):
        place = file.relative_to(folder)
        if "build" not in place.parts:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    names = [node.module]
                yield from ((name.partition(".")[0], str(place)) for name in names)


def _undeclared(
    imported: Iterator[tuple[str, str]], declared: set[str]
) -> Iterator[tuple[str, str]]:
    known = distributions()
    for name, file in imported:
        packages = {canonicalize_name(each) for each in known.get(name, [name])}
        other = sys.stdlib_module_names | FROM_ELSEWHERE.keys() | {"sottovoce"}
        if name not in other and not packages & declared:
            yield name, file


@cache
def _declared(part: str) -> set[str]:
    """Return the requirements of a package, its extras and our packages it needs."""
    project: dict[str, Any] = tomllib.loads((ROOT / part / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
    names = {_name(each) for requirements in lists for each in requirements}
    ours = {name.removeprefix("sottovoce-") for name in names if name.startswith("sottovoce-")}
    ours = {name for name in ours if not name.startswith("bundle-")}  # these hold data alone
    return names.union(*map(_declared, ours - {part}))


def _name(requirement: str) -> str:
    return canonicalize_name(Requirement(requirement).name)
