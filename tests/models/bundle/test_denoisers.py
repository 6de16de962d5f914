"""A bundle gets the shipped denoiser where it fits, and no levels where it does not."""

import shutil
from pathlib import Path

import pytest

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.models.bundle import denoisers
from sottovoce.models.calibration import token_calibration


@pytest.fixture
def unfinished(bundle: Bundle, tmp_path: Path) -> Path:
    """What a build has written by the time the denoiser is added."""
    for name in ("tokenizer.json", "vocabulary.txt", "tokens.npy", "token_prior.npy"):
        shutil.copyfile(bundle.folder / name, tmp_path / name)
    return tmp_path


def test_the_shipped_one_fits_the_default_bundle(
    bundle: Bundle, unfinished: Path, shipped_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_calibration, "_DRAWS", 300)
    monkeypatch.setattr(token_calibration, "_CONFIRMING", 300)
    levels = denoisers.add(shipped_models / "denoiser", unfinished, bundle.manifest.backbone)

    assert list(levels) == list(token_calibration.LEVELS)
    assert Denoiser.load(unfinished / "denoisers", bundle).width == 384


def test_the_real_bundle_says_what_was_measured(bundle: Bundle) -> None:
    for name, wanted in token_calibration.LEVELS.items():
        assert bundle.manifest.embed[name].map_attack == pytest.approx(wanted, abs=0.03)
    assert "denoisers/denoiser.onnx" in bundle.manifest.files


def test_another_space_gets_none(
    small_build: Bundle, unfinished: Path, shipped_models: Path
) -> None:
    shutil.copyfile(small_build.folder / "tokens.npy", unfinished / "tokens.npy")
    shipped = shipped_models / "denoiser"
    assert denoisers.add(shipped, unfinished, small_build.manifest.backbone) == {}
    assert not (unfinished / "denoisers").exists()
    assert small_build.manifest.embed == {}


def test_without_a_shipped_denoiser_there_are_no_levels(
    bundle: Bundle, unfinished: Path, tmp_path: Path
) -> None:
    assert denoisers.add(tmp_path / "none", unfinished, bundle.manifest.backbone) == {}
