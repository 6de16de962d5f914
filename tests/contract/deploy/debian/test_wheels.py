"""Wheels from an index: those that were listed, or none."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from deploy.debian.target import Target
from deploy.debian.wheels import download

TARGET = Target("arm64", "trixie")
FILE = "part-1.0-cp313-cp313-manylinux_2_28_aarch64.whl"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for an index, with one wheel for the target."""
    folder = tmp_path / "index"
    folder.mkdir()
    with zipfile.ZipFile(folder / FILE, "w") as archive:
        about = "Metadata-Version: 2.4\nName: part\nVersion: 1.0\n"
        archive.writestr("part-1.0.dist-info/METADATA", about)
        archive.writestr("part-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return folder


def test_another_file_under_a_listed_version_is_refused(index: Path, tmp_path: Path) -> None:
    lock, out = tmp_path / "lock.txt", tmp_path / "out"
    said = hashlib.sha256((index / FILE).read_bytes()).hexdigest()
    lock.write_text(f"part==1.0 \\\n    --hash=sha256:{said}\n")
    download(TARGET, lock, out)
    assert [path.name for path in out.iterdir()] == [FILE]
    (out / FILE).unlink()
    with zipfile.ZipFile(index / FILE, "a") as archive:
        archive.writestr("part/evil.py", "")
    with pytest.raises(subprocess.CalledProcessError):
        download(TARGET, lock, out)
    lock.write_text("part==1.0\n")
    with pytest.raises(subprocess.CalledProcessError):
        download(TARGET, lock, out)
    assert not list(out.iterdir())
