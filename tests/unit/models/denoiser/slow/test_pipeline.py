"""From text files to a denoiser the device opens, and refusals on the way."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from sottovoce.cloud.models import backbone as backbones
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import BundleMismatch, NotReady
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.models import denoiser as pipeline
from sottovoce.models.cli import main
from tests.support.backbones import tiny_bert
from tests.support.examples import WORDS
from tests.support.tiny_bundle import tiny_bundle


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny") / "bert")


@pytest.fixture
def bundle(backbone: Path, tmp_path: Path) -> Bundle:
    folder = tiny_bundle(tmp_path / "bundle", backbone)
    backbones.load(str(backbone)).tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    return Bundle.open(folder)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(WORDS, n)) for n in random.integers(3, 12, 300)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    return tmp_path / "text.txt"


def arguments(backbone: Path, bundle: Bundle, text: Path, folder: Path) -> list[str]:
    options = {
        "data": text,
        "bundle": bundle.folder,
        "backbone": backbone,
        "out": folder / "out",
        "work": folder / "work",
        "epochs": 2,
        "passages": 200,
    }
    pairs = [(f"--{name}", str(value)) for name, value in options.items()]
    return ["train-denoiser", *(part for pair in pairs for part in pair), "--json"]


def test_the_command_writes_a_denoiser_that_fits_its_bundle(
    backbone: Path, bundle: Bundle, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "CERTIFIED", 0.9)  # a few steps' weights round badly
    command = arguments(backbone, bundle, text, tmp_path)
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    told = json.loads(result.stdout)

    assert result.exit_code == 0
    assert list(told["levels"]) == ["strong", "balanced", "light"]
    for figures in told["levels"].values():
        assert figures["int8"] > 0.9
        assert -1 <= figures["denoised"] <= 1
    denoiser = Denoiser.load(tmp_path / "out", bundle)
    eta = told["levels"]["balanced"]["eta"]
    answer = np.full(denoiser.width, denoiser.width**-0.5, np.float32)
    assert denoiser.denoise([5, 6, 7], answer, eta).shape == (denoiser.width,)

    first = (tmp_path / "out" / "table.npy").read_bytes()
    made = {file: file.stat().st_mtime_ns for file in (tmp_path / "work").rglob("*.*")}
    again = CliRunner().invoke(main, command, catch_exceptions=False)
    assert json.loads(again.stdout)["levels"] == told["levels"]
    assert (tmp_path / "out" / "table.npy").read_bytes() == first
    assert all(file.stat().st_mtime_ns == written for file, written in made.items())


def test_int8_that_is_not_true_to_float_is_refused(
    backbone: Path, bundle: Bundle, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "CERTIFIED", 1.1)
    result = CliRunner().invoke(main, arguments(backbone, bundle, text, tmp_path))
    assert result.exit_code == NotReady.exit_code
    assert "int8" in result.stderr


def test_a_bundle_of_another_backbone_is_refused(
    bundle: Bundle, text: Path, tmp_path: Path
) -> None:
    other = tiny_bert(tmp_path / "other", seed=1)
    with pytest.raises(BundleMismatch):
        pipeline.train_denoiser(
            [text], bundle, tmp_path / "out", work=tmp_path / "work", backbone=str(other)
        )


def test_a_bundle_without_token_frequencies_is_refused(
    backbone: Path, bundle: Bundle, text: Path, tmp_path: Path
) -> None:
    (bundle.folder / "token_prior.npy").unlink()
    with pytest.raises(NotReady):
        pipeline.train_denoiser(
            [text], bundle, tmp_path / "out", work=tmp_path / "work", backbone=str(backbone)
        )
