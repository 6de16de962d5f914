"""A wheel holds every file of its source, its licence and its description."""

from __future__ import annotations

import email
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.mark.parametrize("package", ["protos", "core", "edge", "cloud", "models"])
def test_a_wheel_holds_every_file_of_its_source_and_its_licence(
    tmp_path: Path, package: str
) -> None:
    # Not imported here: it refuses to be where another test has imported Python's own distutils.
    if int(version("setuptools").partition(".")[0]) < 77:
        pytest.skip("an older setuptools knows no licence expressions: pip install -U setuptools")
    skipped = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    source = shutil.copytree(ROOT / package, tmp_path / package, ignore=skipped)
    build = "import setuptools.build_meta as b; print(b.build_wheel('.'))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = source.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        (licence,) = (name for name in names if name.endswith("/LICENSE"))
        told = email.message_from_bytes(packed.read(about))
        assert packed.read(licence) == (ROOT / "LICENSE").read_bytes()
    files = (path for path in (source / "sottovoce").rglob("*") if path.is_file())
    held = {name for name in names if name.startswith("sottovoce/")}
    assert held == {path.relative_to(source).as_posix() for path in files}
    shared = " AND CC-BY-SA-4.0" if package == "core" else ""  # weights learnt from such texts
    assert told["License-Expression"] == f"Apache-2.0{shared}"
    assert str(told.get_payload()).strip() == (ROOT / package / "README.md").read_text().strip()
    assert len(told.get_all("Classifier", [])) > 5
    if package == "core":
        assert "sottovoce/core/privacy/surrogates/lists/given.txt" in held
