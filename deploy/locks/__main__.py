"""``python -m deploy.locks``: write the lists of every package that each environment holds.

A list names versions, and the hashes of all files that an index may hand out for them. So an
installation gets the packages that were tested, and audits have a list to read. Markers choose
what a Python and a processor need. Our own packages and torch (`torch.txt`) are not listed.

Versions that a list has already stay where they still fit. Arguments go to uv: ``--upgrade`` takes
the newest.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

from deploy.locks import FOLDER, entries

SOURCES: Final = Path(__file__).parents[2]
_EDGE: Final = {"protos": (), "core": (), "edge": ()}
_ALL: Final = {
    "protos": (),
    "core": (),
    "edge": ("spacy", "keyring"),
    "cloud": ("scale", "trace"),
    "models": ("train",),
}


@dataclass(frozen=True, slots=True)
class Lock:
    """The purpose of a list."""

    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Packages of ours, and their extras."""
    groups: tuple[str, ...] = ()
    """Dependency groups of pyproject.toml."""
    over: tuple[str, ...] = ()
    """Lists of environments that this one is added to: it holds only what one of them lacks."""
    other: frozenset[str] = frozenset()
    """Packages that it has in another version than the first list."""


LOCKS: Final = {
    "dev": Lock(_ALL, ("dev",)),
    "edge": Lock(_EDGE),
    "try": Lock({**_EDGE, "models": ()}),
    "edge-tests": Lock(
        {"protos": (), "core": (), "edge": ("spacy", "keyring", "trace")}, ("edge-tests",)
    ),
    "cloud": Lock({"protos": (), "core": (), "cloud": ("scale",), "models": ()}),
    "gpu": Lock(groups=("gpu",), over=("cloud",)),
    "docs": Lock(groups=("docs",)),
    "supply": Lock(groups=("supply",)),
    "mutants": Lock(groups=("mutants",), over=("dev", "edge-tests")),
    "graph": Lock({"edge": ("graph",)}, over=("dev", "edge-tests")),
    "ray": Lock({"cloud": ("ray",)}, over=("dev",)),
    "export": Lock({"models": ("export",)}, over=("dev",)),
    "transformers5": Lock(
        _ALL,
        ("dev", "transformers5"),
        over=("dev",),
        other=frozenset({"transformers", "tokenizers", "huggingface-hub"}),
    ),
}
"""Every list. The first is resolved first, and the others take its versions."""

_UNUSED: Final = ("sentence-transformers",)
"""Packages that others name and that no list has, as none of our programs imports them.

The package with the default backbone names this one. It brings torch to devices. To clouds it
brings scikit-learn, which transformers imports wherever it is: 40 MB, and a seventh of the
processor time to import a cloud's modules.
"""

_HEAD: Final = "# Written by `make lock`.\n"
_UV: Final = (sys.executable, "-m", "uv", "pip")
_COMPILE: Final = [
    *(*_UV, "compile", "-", "--quiet", "--universal", "--python-version", "3.11"),
    *("--fork-strategy", "fewest", "--no-emit-package", "torch"),
    *("--generate-hashes", "--no-header", "--no-annotate"),
]
_TRY: Final = [
    *(*_UV, "install", "--quiet", "--dry-run", "--no-deps", "--require-hashes"),
    *("--only-binary", ":all:", "--no-binary", "hnswlib"),
]
_MACHINES: Final = [
    ("--python-version", python, "--python-platform", f"{processor}-manylinux_2_28")
    for python in ("3.11", "3.12", "3.13")
    for processor in ("x86_64", "aarch64")
]


def listed(name: str) -> dict[str, str]:
    """The entries of a list, see `entries`."""
    return entries((FOLDER / f"{name}.txt").read_text(encoding="utf-8"))


def asked(lock: Lock, sources: Path = SOURCES) -> list[Requirement]:
    """Return the requirements behind a list, from parts and groups.

    setuptools builds parts, and Python 3.11 puts an old one into every new environment.
    """
    found = [] if lock.over else ["setuptools"]
    parts = [*lock.parts.items()]
    for part, extras in parts:
        project = _project(sources / part)
        found += project["project"]["dependencies"]
        for extra in extras:
            found += project["project"]["optional-dependencies"][extra]
        ours = [Requirement(each) for each in found if each.startswith("sottovoce-")]
        found = [each for each in found if not each.startswith("sottovoce-")]
        parts += [(each.name.removeprefix("sottovoce-"), (*each.extras,)) for each in ours]
    for group in lock.groups:
        found += _project(sources)["dependency-groups"][group]
    return sorted(map(Requirement, set(found)), key=str)


def _project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def main() -> None:
    """Resolves and writes them, and sees that each machine finds wheels for all they name.

    Raises:
        subprocess.CalledProcessError: uv failed, and has said why.
    """
    with tempfile.TemporaryDirectory() as folder:
        for name, lock in LOCKS.items():
            text, file = _resolved(name, lock, Path(folder)), FOLDER / f"{name}.txt"
            if not file.exists() or file.read_text(encoding="utf-8") != text:
                file.write_text(text, encoding="utf-8")  # make fills environments of newer lists
            for machine in _MACHINES:
                wheels = ["--target", f"{folder}/none", "--requirement", str(file)]
                subprocess.run([*_TRY, *machine, *wheels], check=True)


def _resolved(name: str, lock: Lock, folder: Path) -> str:
    first = next(iter(LOCKS))
    pins = [*listed("pins"), *listed("torch"), *(listed(first) if name != first else ())]
    kept = [pin for pin in pins if pin.partition("==")[0] not in lock.other]
    constraints, output = folder / "constraints.txt", folder / f"{name}.txt"
    constraints.write_text("\n".join(kept), encoding="utf-8")
    excluded = folder / "excluded.txt"
    excluded.write_text("\n".join(_UNUSED), encoding="utf-8")
    if (FOLDER / output.name).exists():
        shutil.copyfile(FOLDER / output.name, output)
    files = ["--constraint", str(constraints), "--output-file", str(output)]
    files += ["--excludes", str(excluded)]
    text = "\n".join(map(str, asked(lock)))
    command = [*_COMPILE, *files, *sys.argv[1:]]
    subprocess.run(command, input=text, text=True, check=True, cwd=SOURCES)
    found = entries(output.read_text(encoding="utf-8")).items()
    bases = [listed(each).keys() for each in lock.over]
    return _HEAD + "".join(text for pin, text in found if not bases or _lacks(bases, pin))


def _lacks(bases: Iterable[Collection[str]], pin: str) -> bool:
    """Whether a list is without the version of an entry, or has it for other machines only."""
    return any(pin not in base and pin.partition(" ;")[0] not in base for base in bases)


if __name__ == "__main__":
    main()
