"""Wheels and source archives of our packages, and of bundles as packages.

Each package is built from a copy in which every file has one time and one mode. So the same sources
and the same key give the same wheels, byte by byte, on any machine.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sottovoce.core.bundle.folder import CARDS, Bundle
from sottovoce.core.bundle.manifest import ENCODER, MANIFEST
from sottovoce.core.bundle.signature import SIGNATURE, Signature, show_key
from sottovoce.edge.bundle import PUBLISHER, package

PARTS: Final = ("protos", "core", "edge", "cloud", "models")

_IN_SOURCES: Final = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "*.pyc")
_BUILD: Final = """
import sys
import setuptools.build_meta as backend
out = sys.argv[1]  # setuptools writes over it
backend.build_sdist(out)
backend.build_wheel(out)
"""
_PROJECT: Final = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = "{description}"
readme = "README.md"
license = "{licence}"
license-files = [{files}]
requires-python = ">=3.11"
dependencies = [{dependencies}]
classifiers = [
  "Development Status :: 3 - Alpha",
  "Natural Language :: English",
  "Programming Language :: Python :: 3 :: Only",
  "Topic :: Security",
  "Topic :: Text Processing :: Linguistic",
]

[tool.setuptools.packages.find]
include = ["{module}*"]
namespaces = true

[tool.setuptools.package-data]
"*" = ["*"]
"""
_README: Final = """\
# {name}

{about}

    pip install 'sottovoce-edge[{extra}]'
    sotto try "Anna Marsh lives in York."

The bundle is {id}, for language `{language}` and the backbone `{backbone}`. The device uses the
files in place. It checks every byte, the signature and the claims before the first use.

## Licence

{licence}
"""
_ABOUT: Final = (
    "The English bundle of Sottovoce: word vectors, name finder, tagger and denoiser. With it a device "
    "privatises text without a cloud."
)
_ABOUT_ENCODER: Final = (
    "The encoder of the English bundle of Sottovoce. With it a device learns tasks, classifies texts "
    "and finds names by a language model, alone."
)
_LICENCE: Final = """\
The weights and word counts were learnt from texts that ask to share alike, among them the Universal
Dependencies English Web Treebank and Wikipedia. They are under CC BY-SA 4.0
(https://creativecommons.org/licenses/by-sa/4.0/). Word vectors and tokenizer come from
all-MiniLM-L6-v2, and are under the Apache License 2.0. The model cards in `bundle/cards` name every
source, its authors and its licence. `sotto licences` prints the cards."""
_LICENCE_ENCODER: Final = """\
The encoder is all-MiniLM-L6-v2 in another format, with weights of one byte. It is under the Apache
License 2.0, as the original. The name finder `full_finder.onnx` adds weights that were learnt from
texts that ask to share alike. It is under CC BY-SA 4.0
(https://creativecommons.org/licenses/by-sa/4.0/). `sotto licences` prints its card."""


def version(sources: Path, part: str = "edge") -> str:
    """Return the version in the ``pyproject.toml`` of a part."""
    text = (sources / part / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


def build(sources: Path, part: str, out: Path, epoch: int, publisher: bytes) -> None:
    """Build the wheel and the source archive of one of `PARTS` into ``out``.

    Args:
        epoch: seconds since 1970, the time of every file.
        publisher: the public key of the bundle packages, which the device's wheel names.

    Raises:
        subprocess.CalledProcessError: setuptools failed, and has said why.
    """
    with _staged() as folder:
        shutil.copytree(sources / part, folder, ignore=_IN_SOURCES, dirs_exist_ok=True)
        if part == "edge":
            place = folder / "sottovoce" / "edge" / PUBLISHER.name
            place.write_text(f"{show_key(publisher)}\n", encoding="ascii")
        _build(folder, out, epoch)


def build_bundles(
    sources: Path, bundle: Path, key: Ed25519PrivateKey, out: Path, epoch: int
) -> None:
    """Build a bundle's packages: one of what every device needs, and one of its encoder if any.

    Both put their files below one folder, as one bundle.

    Raises:
        DataLoss: the bundle is damaged.
        subprocess.CalledProcessError: setuptools failed, and has said why.
    """
    opened = Bundle.open(bundle)
    for encoder in (False, True) if opened.manifest.optional else (False,):
        with _staged() as folder:
            _stage_bundle(sources, opened, key, folder, encoder=encoder)
            _build(folder, out, epoch)


def _stage_bundle(
    sources: Path, bundle: Bundle, key: Ed25519PrivateKey, folder: Path, *, encoder: bool
) -> None:
    manifest = bundle.manifest
    base, release = package(manifest.language), version(sources)
    name, extra = base, manifest.language
    if encoder:
        name, extra = f"{base}-encoder", f"{extra}-encoder"
    module = base.replace("-", "_")
    place = folder / module / "bundle"
    files = manifest.optional if encoder else manifest.files
    for path in files:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(bundle.folder / path, place / path)
    if not encoder:
        data = (bundle.folder / MANIFEST).read_bytes()
        (place / MANIFEST).write_bytes(data)
        (place / SIGNATURE).write_bytes(Signature.make(data, key).to_bytes())
        (folder / module / "__init__.py").write_text(f'"""{_ABOUT}"""\n', encoding="utf-8")
    shutil.copyfile(sources / "LICENSE", folder / "LICENSE")
    project = _PROJECT.format(
        name=name,
        version=release,
        description=(_ABOUT_ENCODER if encoder else _ABOUT).partition(":")[0].partition(".")[0],
        licence="Apache-2.0 AND CC-BY-SA-4.0",
        files='"LICENSE"' if encoder else f'"LICENSE", "{module}/bundle/{CARDS}/*"',
        dependencies=f'"{base}=={release}"' if encoder else "",
        module=module,
    )
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    readme = _README.format(
        name=name,
        about=_ABOUT_ENCODER if encoder else _ABOUT,
        extra=extra,
        id=bundle.id,
        language=manifest.language,
        backbone=manifest.backbone.name,
        licence=_LICENCE_ENCODER if encoder else _LICENCE,
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")


@contextmanager
def _staged() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "package"
        folder.mkdir()
        yield folder


def _build(folder: Path, out: Path, epoch: int) -> None:
    """Run setuptools in ``folder`` with one time and one mode for all files."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (epoch, epoch))
    out.mkdir(parents=True, exist_ok=True)
    env = {"SOURCE_DATE_EPOCH": str(epoch), "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(
            [sys.executable, "-c", _BUILD, made],
            cwd=folder,
            env=env,
            umask=0o022,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        for file in Path(made).iterdir():
            if file.suffix == ".gz":
                _set_times(file, epoch)
            shutil.move(file, out / file.name)


def _set_times(archive: Path, epoch: int) -> None:
    """Rewrite a source archive with one time and no owner, which setuptools takes from here."""
    aside = archive.with_suffix(".new")
    with (
        tarfile.open(archive) as old,
        aside.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=epoch, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    aside.replace(archive)
