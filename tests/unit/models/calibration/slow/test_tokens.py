"""Levels of `token-embedding.v1` are what an attack on fresh noise finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sottovoce.cloud.models.encoder import PosteriorMean
from sottovoce.core.bundle.backbone import BackboneFiles
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.models import calibration_attack as tokens
from sottovoce.models.calibration_attack import LEVELS, calibrate_tokens, success, token_log_prior
from sottovoce.models.frequencies import FrequencyTable


@pytest.fixture(scope="module")
def space() -> Floats2d:
    rows = np.random.default_rng(1).standard_normal((800, 8)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def log_prior() -> np.ndarray:
    shares = np.random.default_rng(2).zipf(1.5, 800).clip(max=3_000).astype(float)
    return np.log(shares / shares.sum()).astype(np.float32)


def test_levels_are_in_order_and_near_their_success(space: Floats2d, log_prior: np.ndarray) -> None:
    levels = calibrate_tokens(space, log_prior)

    assert list(levels) == ["strong", "balanced", "light"]
    etas = [level.eta for level in levels.values()]
    assert etas == sorted(etas)
    for name, level in levels.items():
        assert level.map_attack == pytest.approx(LEVELS[name], abs=0.03)


def test_an_independent_attack_finds_the_same_share(space: Floats2d, log_prior: np.ndarray) -> None:
    """Significance: the seeded difference is within 4 standard errors of the count."""
    level = calibrate_tokens(space, log_prior)["balanced"]
    random = np.random.default_rng(9)
    ids = random.choice(len(space), 4_000, p=(p := np.exp(log_prior.astype(float))) / p.sum())
    noisy = space[ids] + noise.draw(random, len(ids), 8, level.eta)
    attack = PosteriorMean(space, np.eye(len(space), dtype=np.float32), log_prior)
    hits = (attack(noisy, level.eta).numpy().argmax(1) == ids).mean()

    assert abs(hits - level.map_attack) < 4 * 0.5 / 4_000**0.5


def test_two_builds_agree(
    space: Floats2d, log_prior: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_CONFIRMING", 1_000)
    assert calibrate_tokens(space, log_prior) == calibrate_tokens(space, log_prior)


def test_success_grows_with_eta(space: Floats2d, log_prior: np.ndarray) -> None:
    found = [success(space, log_prior, eta, draws=500) for eta in (2.0, 8.0, 20.0, 60.0)]
    assert found == sorted(found)


def test_shares_of_the_default_vocabulary(table: FrequencyTable) -> None:
    tokenizer = BackboneFiles.open().tokenizer
    shares = np.exp(token_log_prior(tokenizer, table).astype(float))
    of = {token: shares[number] for token, number in tokenizer.get_vocab().items()}

    assert shares.sum() == pytest.approx(1, abs=1e-4)
    assert len(shares) == len(of)
    assert shares.min() > 0
    assert 0.03 < of["the"] < 0.08
    assert 0.03 < of[","] < 0.08
    assert of["the"] > of["doctor"] > of["[CLS]"]
    assert of["1945"] > of["[CLS]"]
    assert of["##ing"] > of["[unused5]"]


def test_vocabularies_of_other_kinds_count_words_with_their_space(
    tiny_decoder: Path, table: FrequencyTable
) -> None:
    tokenizer = BackboneFiles.open(str(tiny_decoder)).tokenizer
    log_prior = token_log_prior(tokenizer, table)
    the = tokenizer.encode(" the", add_special_tokens=False).ids

    assert len(the) == 1
    assert log_prior.argmax() in tokenizer.encode(" the, and of", add_special_tokens=False).ids
    assert np.isfinite(log_prior).all()
