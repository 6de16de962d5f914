"""Wheels: fetched for another machine, chosen by their requirements, and laid out.

pip installs for its own Python, evaluates markers there, and writes its paths into the installed
files. A wheel is a zip file of the files to install.
"""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.debian.target import Target
from deploy.locks import for_machine
from sottovoce.core.bundle.manifest import sha256

LEFT_OUT: Final = frozenset({"huggingface-hub"})
"""Asked for by `tokenizers`, which never loads it unless told to download: a client of a network,
and 25 MB with what it brings."""
LOCK: Final = "deploy/locks/edge.txt"
"""In the sources: versions, and hashes of their files."""
_OURS: Final = ("protos", "core", "edge")
_PIP: Final = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
_IN_SOURCES: Final = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "*.pyc")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel file and its metadata."""

    file: Path
    about: Message

    @classmethod
    def read(cls, file: Path) -> Wheel:
        """Open a wheel file."""
        with zipfile.ZipFile(file) as archive:  # setuptools brings wheels within its own
            names = (name for name in archive.namelist() if name.count("/") == 1)
            (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            return cls(file, email.message_from_bytes(archive.read(name)))

    @property
    def name(self) -> str:
        """The name, as package indices spell it."""
        return canonicalize_name(self.about["Name"])

    @property
    def version(self) -> str:
        return str(self.about["Version"])

    @property
    def licence(self) -> str:
        """The stated licence, a word or an expression."""
        stated = self.about["License-Expression"] or self.about["License"] or ""
        if stated and "\n" not in stated:
            return stated.strip()
        classified = (c for c in self.about.get_all("Classifier", ()) if c.startswith("License"))
        return " and ".join(c.rpartition(" :: ")[2] for c in classified) or "see its files"

    @property
    def files(self) -> dict[str, PurePosixPath]:
        """The files in it by their names there: where each goes below the Python packages.

        Raises:
            ValueError: one does not belong there.
        """
        found = {}
        with zipfile.ZipFile(self.file) as archive:
            for info in archive.infolist():
                if info.is_dir():
                    continue
                parts = PurePosixPath(info.filename).parts
                if parts[0].endswith(".data"):  # purelib and platlib are one folder here
                    if parts[1] not in ("purelib", "platlib"):
                        raise ValueError(f"{self.file.name} holds {parts[1]}: it has no place here")
                    parts = parts[2:]
                place = PurePosixPath(*parts)
                if place.is_absolute() or ".." in parts:
                    raise ValueError(f"{self.file.name} holds {info.filename}: it leads elsewhere")
                found[info.filename] = place
        return found

    @property
    def sha256(self) -> str:
        return sha256(self.file)


def fetch(target: Target, sources: Path, folder: Path, epoch: int) -> None:
    """Fill `folder` with all wheels that the device needs there, ours built from `sources`.

    Args:
        sources: the repository's root; its `LOCK` pins the versions and the files.
        folder: emptied first.
        epoch: the time of all built files, in seconds since 1970.

    Raises:
        subprocess.CalledProcessError: pip failed, and has said why.
        OSError: the folder cannot be emptied.
    """
    if folder.exists():
        shutil.rmtree(folder)  # and not in vain: what another user fetched must not go in
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as copies:  # setuptools builds where the sources lie
        parts = [shutil.copytree(sources / p, Path(copies, p), ignore=_IN_SOURCES) for p in _OURS]
        build = [*_PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
        env = {"SOURCE_DATE_EPOCH": str(epoch), "PATH": "/usr/bin:/bin"}
        subprocess.run([*build, *map(str, parts)], check=True, env=env)
    download(target, sources / LOCK, folder)


def download(target: Target, lock: Path, folder: Path) -> None:
    """Fetch all files of a list, and check their hashes.

    Raises:
        subprocess.CalledProcessError: pip failed, and printed why: the target's file is missing,
            or its hash differs.
    """
    text = lock.read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:  # pip reads markers as of here
        chosen.writelines(lines for _, _, lines in for_machine(text, target.markers))
        chosen.flush()
        listed = ["--no-deps", "--require-hashes", "--requirement", chosen.name]
        subprocess.run([*_PIP, "download", *target.pip, *listed, "--dest", str(folder)], check=True)


def needed(wheels: Iterable[Wheel], first: str, target: Target) -> list[Wheel]:
    """Return the wheels that `first` needs on the target, itself included, by name.

    Raises:
        ValueError: one that is needed is missing, or of a version that will not do.
    """
    there = {wheel.name: wheel for wheel in wheels}
    found: dict[str, Wheel] = {}
    queue = [Requirement(first)]
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        if name in LEFT_OUT:
            continue
        wheel = there.get(name)
        if wheel is None or not requirement.specifier.contains(wheel.version, prereleases=True):
            had = f"there is {wheel.version}" if wheel else "there is none"
            raise ValueError(f"{requirement} is needed on {target}, and {had}")
        if name not in found:
            found[name] = wheel
            queue += _requirements(wheel, target)
    return [found[name] for name in sorted(found)]


def _requirements(wheel: Wheel, target: Target) -> list[Requirement]:
    asked = map(Requirement, wheel.about.get_all("Requires-Dist", ()))
    return [r for r in asked if r.marker is None or r.marker.evaluate(target.markers)]


def unpack(wheel: Wheel, site: Path) -> None:
    """Lay a wheel's files out in a folder of Python packages; see `Wheel.files`."""
    files = wheel.files
    with zipfile.ZipFile(wheel.file) as archive:
        for name, place in files.items():
            path = site / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
