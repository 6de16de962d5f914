"""Targets of packages: a processor, and the Python of a Debian release.

Wheels with compiled parts fit one Python and one processor. A package names both, and a release of
Debian has one Python.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from packaging.version import Version

SUITES: Final = {"bookworm": ("deb12", "3.11"), "trixie": ("deb13", "3.13")}
"""Releases of Debian: the mark in a package's version, and their Python."""
ARCHITECTURES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
"""As Debian calls a processor, and as Python does."""
_GLIBC = (36, 34, 31, 28, 27, 26, 24, 17)


@dataclass(frozen=True, slots=True)
class Target:
    """A machine that the package is for; both are keys of the tables above."""

    architecture: str
    suite: str

    @property
    def python(self) -> str:
        """The target's version of Python: "3.13"."""
        return SUITES[self.suite][1]

    @property
    def next_python(self) -> str:
        """The next version of Python."""
        major, minor = self.python.split(".")
        return f"{major}.{int(minor) + 1}"

    @property
    def machine(self) -> str:
        """The processor's name in Python."""
        return ARCHITECTURES[self.architecture]

    @property
    def markers(self) -> dict[str, str]:
        """The target's environment markers (PEP 508)."""
        return {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{self.python}.0",
            "python_version": self.python,
            "sys_platform": "linux",
            "extra": "",
        }

    @property
    def pip(self) -> list[str]:
        """Options for pip, which then chooses wheels for the target."""
        python = self.python.replace(".", "")
        abis = (f"cp{python}", "abi3", "none")
        platforms = [f"manylinux_2_{n}_{self.machine}" for n in _GLIBC]
        platforms.append(f"manylinux2014_{self.machine}")
        options = ["--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}"]
        return options + [f"--abi={a}" for a in abis] + [f"--platform={p}" for p in platforms]

    def version(self, ours: str) -> str:
        """Return a package's version; a later release of Debian has the newer one.

        >>> Target("amd64", "trixie").version("0.2.0rc1")
        '0.2.0~rc1+deb13'
        """
        return f"{debian_version(ours)}+{SUITES[self.suite][0]}"


def debian_version(ours: str) -> str:
    """Return a Python version in a form that dpkg orders alike.

    Raises:
        ValueError: no version, or one with an epoch or a local part, which dpkg orders otherwise.

    >>> debian_version("1.0.dev3"), debian_version("1.0.post1.dev2")
    ('1.0~~dev3', '1.0+post1~~dev2')
    """
    version = Version(ours)
    if version.epoch or version.local:
        raise ValueError(f"a package cannot have the version {ours}: leave out '!' and '+'")
    text = version.base_version
    if version.pre:
        text += f"~{version.pre[0]}{version.pre[1]}"
    if version.post is not None:
        text += f"+post{version.post}"
    if version.dev is not None:
        text += f"~~dev{version.dev}"
    return text


SOURCES: Final = Path(__file__).parents[2]


def epoch() -> int:
    """Return SOURCE_DATE_EPOCH, else the time of the last commit, in seconds since 1970.

    Raises:
        click.ClickException: the sources have no history.
    """
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    git = ["git", "-C", str(SOURCES), "log", "-1", "--format=%ct"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException("these sources have no history\nfix: set SOURCE_DATE_EPOCH")
    return int(done.stdout)
