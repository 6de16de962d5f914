"""The packages of a release, built twice to the same bytes."""

from __future__ import annotations

import email
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deploy.dist import packages
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import ENCODER
from sottovoce.core.bundle.signature import Signature, show_key
from tests.support.encoder_bundle import with_some_files
from tests.support.paths import ROOT

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
EPOCH = 1_700_000_000
RELEASE = packages.version(ROOT)


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, small_bundle_folder: Path
) -> Callable[[], Path]:
    """Builds the smallest package, the device's and a bundle's; gives their folder."""
    bundle = with_some_files(small_bundle_folder, tmp_path_factory.mktemp("bundle") / "small")

    def build() -> Path:
        out = tmp_path_factory.mktemp("packages")
        for part in ("protos", "edge"):
            packages.build(ROOT, part, out, EPOCH, PUBLIC)
        packages.build_bundles(ROOT, bundle, KEY, out, EPOCH)
        return out

    return build


@pytest.fixture(scope="module")
def release(built: Callable[[], Path]) -> Path:
    return built()


def _wheel(release: Path, name: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(release / f"{name}-{RELEASE}-py3-none-any.whl")


def _about(wheel: zipfile.ZipFile) -> email.message.Message:
    (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_the_same_sources_and_key_give_the_same_bytes(
    release: Path, built: Callable[[], Path]
) -> None:
    before = os.umask(0o077)
    try:
        again = built()
    finally:
        os.umask(before)
    files = {path.name: path.read_bytes() for path in release.iterdir()}
    assert {path.name for path in again.iterdir()} == files.keys()
    assert [name for name, data in files.items() if (again / name).read_bytes() != data] == []
    assert len(files) == 8  # a wheel and a source archive of each


def test_both_wheels_of_a_bundle_make_one_folder(release: Path, tmp_path: Path) -> None:
    with _wheel(release, "sottovoce_bundle_en") as needed:
        needed.extractall(tmp_path)
        assert not [each for each in needed.namelist() if f"/{ENCODER}/" in each]
    folder = tmp_path / "sottovoce_bundle_en" / "bundle"
    bundle = Bundle.open(folder)
    with _wheel(release, "sottovoce_bundle_en_encoder") as encoder:
        encoder.extractall(tmp_path)
        assert _about(encoder).get_all("Requires-Dist") == [f"sottovoce-bundle-en=={RELEASE}"]
    Bundle.open(folder, expected=bundle.id)
    assert all((folder / path).is_file() for path in bundle.manifest.optional)
    signature = Signature.read(folder)
    assert signature is not None
    signature.check((folder / "manifest.json").read_bytes())
    assert signature.key == PUBLIC


def test_the_devices_wheel_names_who_signs_bundle_packages(release: Path) -> None:
    with _wheel(release, "sottovoce_edge") as wheel:
        assert wheel.read("sottovoce/edge/publisher.pub").decode().strip() == show_key(PUBLIC)


def test_a_bundles_package_states_the_licence_of_its_data(release: Path) -> None:
    # The encoder's holds the finder `full`, which was learnt from texts that ask to share alike.
    for name in ("sottovoce_bundle_en", "sottovoce_bundle_en_encoder"):
        with _wheel(release, name) as wheel:
            about = _about(wheel)
            assert about["License-Expression"] == "Apache-2.0 AND CC-BY-SA-4.0"
            assert "CC BY-SA 4.0" in str(about.get_payload())


def test_a_source_archive_builds_its_wheel(release: Path, tmp_path: Path) -> None:
    name = f"sottovoce_bundle_en-{RELEASE}"
    with tarfile.open(release / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    program = "import setuptools.build_meta as b; b.build_wheel('out')"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path / name, check=True)
    with _wheel(release, "sottovoce_bundle_en") as wheel:
        (made,) = (tmp_path / name / "out").glob("*.whl")
        assert zipfile.ZipFile(made).namelist() == wheel.namelist()
