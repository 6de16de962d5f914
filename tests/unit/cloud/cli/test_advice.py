"""What shared code finds wrong, the provider is told to mend by commands of the provider's."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sottovoce.cloud.cli import main
from sottovoce.models.cli import main as sotto_models


def missing(bundle: Path) -> None:
    shutil.rmtree(bundle)


def cut(bundle: Path) -> None:
    (bundle / "words.txt").write_bytes(b"x")


def no_manifest(bundle: Path) -> None:
    (bundle / "manifest.json").write_text("{}")


def of_another_version(bundle: Path) -> None:
    (bundle / "manifest.json").write_text('{"format": "sottovoce.bundle.v0"}')


@pytest.mark.parametrize("harm", [missing, cut, no_manifest, of_another_version])
@pytest.mark.parametrize("command", ["serve", "front", "replica", "train-denoiser"])
def test_a_bundle_that_cannot_be_used_is_to_be_built(
    tmp_path: Path, small_bundle_folder: Path, command: str, harm: Callable[[Path], None]
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(small_bundle_folder, bundle)
    harm(bundle)
    options = (
        ["--data", tmp_path, "--out", tmp_path / "out"]
        if command == "train-denoiser"
        else ["--state", tmp_path / "state", "--listen", "127.0.0.1:0"]
    )
    program = sotto_models if command == "train-denoiser" else main
    done = CliRunner().invoke(program, [command, "--bundle", str(bundle), *map(str, options)])
    assert done.exit_code in (3, 8)
    assert "`sotto-cloud build-bundle" in done.stderr
    assert "`sotto " not in done.stderr


def test_a_tagger_that_is_missing_is_to_be_trained(tmp_path: Path) -> None:
    options = ["--data", tmp_path, "--tagger", tmp_path / "none", "--out", tmp_path / "out"]
    done = CliRunner().invoke(sotto_models, ["count-words", *map(str, options)])
    assert done.exit_code == 3
    assert "`sotto-models train-tagger`" in done.stderr
    assert "`sotto " not in done.stderr
