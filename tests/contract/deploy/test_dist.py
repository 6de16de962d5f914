"""A release: its notes, and one version everywhere."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from deploy.dist import packages
from deploy.dist.__main__ import notes
from deploy.dist.first_minute import interpreters
from tests.support.paths import ROOT

RELEASE = packages.version(ROOT)


def test_one_version_everywhere() -> None:
    parts = ("protos", "core", "edge", "cloud", "models")
    found = {part: packages.version(ROOT, part) for part in (*parts, "clients/python")}
    found["clients/node"] = json.loads((ROOT / "clients/node/package.json").read_text())["version"]
    found["CITATION.cff"] = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert set(found.values()) == {RELEASE}, found
    assert notes((ROOT / "CHANGELOG.md").read_text(), RELEASE)


def test_the_extras_take_bundles_of_this_release() -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "edge" / "pyproject.toml").read_text())["project"]
    for extra in ("en", "en-encoder"):
        (asked,) = map(Requirement, project["optional-dependencies"][extra])
        assert asked.name == f"sottovoce-bundle-{extra}"
        assert asked.specifier.contains(RELEASE)


def test_the_notes_of_a_release_are_its_section_alone() -> None:
    text = "# Changelog\n\n## 0.2.0 - 2027\n\nNew.\n\n### More\n\n## 0.1.0\n\nOld.\n"
    assert notes(text, "0.2.0") == "# Sottovoce 0.2.0\n\nNew.\n\n### More\n"
    with pytest.raises(click.ClickException, match=r"0\.3\.0"):
        notes(text, "0.3.0")


def test_an_interpreter_that_is_not_there_is_told() -> None:
    found = dict(interpreters((sys.executable, "python0.0")))
    assert found["python0.0"] is None
    assert str(found[sys.executable]) == sys.executable


def test_an_interpreter_of_pyenv_is_found_where_path_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "versions" / "3.99.1" / "bin"
    folder.mkdir(parents=True)
    (folder / "python3.99").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python3.99").chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    found = dict(interpreters(("python3.99", "python3.98")))
    assert found["python3.99"] == Path(sys.executable)
    assert found["python3.98"] is None


def test_continuous_integration_calls_only_make() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    steps = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    assert steps
    for step in steps:
        program, *asked = step.split()
        assert program == "make", step
        assert {each for each in asked if "=" not in each} <= targets, step
