"""Wheels: fetched for another machine than this one, chosen by what needs what, and laid out.

Why it is here: pip installs for the Python that it runs on, evaluates markers there, and writes its
paths into what it installs. A wheel is a zip file whose contents are what is installed.
"""

from __future__ import annotations

import email
import hashlib
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
    """A wheel file and what it says of itself."""

    file: Path
    about: Message

    @classmethod
    def read(cls, file: Path) -> Wheel:
        """Opens one."""
        with zipfile.ZipFile(file) as archive:  # setuptools brings wheels within its own
            names = (name for name in archive.namelist() if name.count("/") == 1)
            (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            return cls(file, email.message_from_bytes(archive.read(name)))

    @property
    def name(self) -> str:
        """As package indices spell it."""
        return canonicalize_name(self.about["Name"])

    @property
    def version(self) -> str:
        """Its version."""
        return str(self.about["Version"])

    @property
    def licence(self) -> str:
        """The licence it states, in a word or an expression."""
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
        """Of the file."""
        return hashlib.sha256(self.file.read_bytes()).hexdigest()


def fetch(target: Target, sources: Path, folder: Path, epoch: int) -> None:
    """Fills `folder` with wheels of all that the device needs there, ours built from `sources`.

    Args:
        target: for which machine.
        sources: the repository's root, whose `LOCK` pins the versions and the files.
        folder: what it held is gone.
        epoch: seconds since 1970, the time of whatever is built.

    Raises:
        subprocess.CalledProcessError: pip failed, and has said why.
        OSError: what the folder held cannot be deleted.
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
    """Fetches all that a list names, each with the hash that it names.

    Raises:
        subprocess.CalledProcessError: pip failed, and has said why: there is no such file for the
            target, or it is another than was listed.
    """
    text = lock.read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:  # pip reads markers as of here
        chosen.writelines(lines for _, _, lines in for_machine(text, target.markers))
        chosen.flush()
        listed = ["--no-deps", "--require-hashes", "--requirement", chosen.name]
        subprocess.run([*_PIP, "download", *target.pip, *listed, "--dest", str(folder)], check=True)


def needed(wheels: Iterable[Wheel], first: str, target: Target) -> list[Wheel]:
    """Those of `wheels` that `first` needs on the target, itself included, by name.

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
    """Lays a wheel's files out in a folder of Python packages.

    Raises:
        ValueError: it holds what does not belong there.
    """
    files = wheel.files
    with zipfile.ZipFile(wheel.file) as archive:
        for name, place in files.items():
            path = site / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
