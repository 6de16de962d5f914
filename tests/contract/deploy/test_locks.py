"""The lists of what environments hold: whole, pinned by hash, and of the sources that are here."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.locks import FOLDER, entries, for_machine
from deploy.locks.__main__ import LOCKS, asked, listed
from tests.support.paths import ROOT

ENVIRONMENTS = {
    ".venv": (("dev",), ("graph", "ray", "export")),
    ".venv-edge": (("edge-tests",), ("graph",)),
    ".venv-docs": (("docs",), ()),
    ".venv-supply": (("supply",), ()),
    ".venv-transformers5": (("dev", "transformers5"), ()),
}
"""Of each environment that make fills, its lists and those that may be added."""
OURS = {f"sottovoce-{part}" for part in ("protos", "core", "edge", "cloud", "models")}
SHOW = """
import json, platform
from importlib.metadata import distributions
full = platform.python_version()
markers = {"python_full_version": full, "python_version": full.rpartition(".")[0]}
print(json.dumps([markers, [[d.name, d.version, d.requires or []] for d in distributions()]]))
"""


def _pins(*names: str) -> dict[str, str]:
    """Versions by name, of the last list that has one."""
    pins = [pin.split()[0].split("==") for name in names for pin in listed(name)]
    return dict(pins)


@pytest.mark.parametrize("name", LOCKS)
def test_each_file_is_named_by_its_hash_and_by_nothing_else(name: str) -> None:
    text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    first, *lines = text.splitlines(keepends=True)
    assert first.startswith("# ")
    assert "".join(lines) == "".join(entries(text).values()), "`make lock` writes it"
    for entry in entries(text).values():
        assert re.fullmatch(
            r"[a-z0-9.-]+==\S+(?: ;.*)?(?: \\\n    --hash=sha256:[0-9a-f]{64})+\n", entry
        )


@pytest.mark.parametrize("name", LOCKS)
def test_it_is_of_the_sources_that_are_here(name: str) -> None:
    pins = {**_pins(*LOCKS[name].over, name, "torch")}
    for requirement in asked(LOCKS[name]):
        version = pins.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not listed: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement}: run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_all_lists_have_one_version_of_a_package(name: str) -> None:
    others = {**_pins("pins"), **_pins(next(iter(LOCKS)))}
    differ = {each for each, version in _pins(name).items() if others.get(each, version) != version}
    assert differ == LOCKS[name].other, "run `make lock`"


@pytest.mark.parametrize("name", LOCKS)
def test_no_list_brings_torch_or_what_a_gpu_takes(name: str) -> None:
    assert not [pin for pin in listed(name) if re.match(r"torch=|nvidia|cuda|triton", pin)]


def test_a_machine_gets_what_its_markers_ask_for() -> None:
    text = (
        "# A head.\n"
        "a==1 ; python_full_version < '3.12' \\\n    --hash=sha256:00\n"
        "b==2 ; platform_machine == 'aarch64' \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n"
        "c==3 \\\n    --hash=sha256:33\n"
    )
    arm = {"platform_machine": "aarch64", "python_full_version": "3.13.0"}
    assert [*for_machine(text, arm)] == [
        ("b", "2", "b==2 \\\n    --hash=sha256:11 \\\n    --hash=sha256:22\n"),
        ("c", "3", "c==3 \\\n    --hash=sha256:33\n"),
    ]
    x86 = {"platform_machine": "x86_64", "python_full_version": "3.11.9"}
    assert [name for name, _, _ in for_machine(text, x86)] == ["a", "c"]


@pytest.mark.parametrize("folder", ENVIRONMENTS)
def test_an_environment_holds_what_its_lists_name(folder: str) -> None:
    if not (ROOT / folder / ".done").exists():
        pytest.skip(f"there is no {folder}")
    python = str(ROOT / folder / "bin" / "python")
    shown = subprocess.run([python, "-c", SHOW], capture_output=True, check=True, text=True)
    markers, found = json.loads(shown.stdout)
    held = {canonicalize_name(name): (version, needs) for name, version, needs in found}
    lists, added = ENVIRONMENTS[folder]
    named = dict(_named(lists, markers))
    for each in added:
        extra = dict(_named((each,), markers))
        named |= extra if extra.keys() & held.keys() else {}
    left_out = {"pip"}  # it came with the environment, and filled it
    if "dev" in lists:
        named |= _pins("torch")
        left_out |= _brought("torch", held) - named.keys()
    versions = {name: version.partition("+")[0] for name, (version, _) in held.items()}
    for name in OURS | left_out:
        versions.pop(name, None)
        named.pop(name, None)
    assert versions == named, f"remove {folder}, and have make fill it again"
    checked = subprocess.run([python, "-m", "pip", "check"], capture_output=True, text=True)
    faults = checked.stdout.splitlines() if checked.returncode else []
    assert not [line for line in faults if "sentence-transformers" not in line]


@pytest.mark.parametrize("version", [(3, 10), (3, 14), None])
def test_an_environment_is_kept_if_the_interpreter_does_not_suit(
    version: tuple[int, int] | None, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copytree(FOLDER, tmp_path / "deploy" / "locks")
    python = tmp_path / "python"
    if version:
        asked = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{asked}" "$2"\n', "utf-8")
        python.chmod(0o755)
    kept = tmp_path / ".venv-docs" / "kept"
    kept.parent.mkdir()
    kept.touch()
    command = ["make", "-C", str(tmp_path), f"PYTHON={python}", ".venv-docs/.done"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode
    assert "fix: " in made.stderr
    assert kept.exists()


def _named(lists: tuple[str, ...], markers: dict[str, str]) -> Iterator[tuple[str, str]]:
    for each in lists:
        text = (FOLDER / f"{each}.txt").read_text(encoding="utf-8")
        yield from ((name, version) for name, version, _ in for_machine(text, markers))


def _brought(package: str, held: dict[str, Any]) -> set[str]:
    """Packages that another one asks for, or that those ask for."""
    queue, found = [package], set[str]()
    while queue:
        _, needs = held.get(queue.pop(), ("", ()))
        new = {canonicalize_name(Requirement(each).name) for each in needs} - found
        found |= new
        queue += new
    return found
