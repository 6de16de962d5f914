"""A device installed from a wheel has the public lists, too."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

EDGE = Path(__file__).parents[2] / "edge"


def test_the_wheel_of_the_edge_holds_every_file_of_its_source(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", minversion="77")
    skipped = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
    source = shutil.copytree(EDGE, tmp_path / "edge", ignore=skipped)
    build = "import setuptools.build_meta as b; print(b.build_wheel('.'))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = source.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        held = {name for name in packed.namelist() if name.startswith("sottovoce/")}
    files = (path for path in (source / "sottovoce").rglob("*") if path.is_file())
    assert held == {path.relative_to(source).as_posix() for path in files}
    assert "sottovoce/core/privacy/surrogates/lists/given.txt" in held
