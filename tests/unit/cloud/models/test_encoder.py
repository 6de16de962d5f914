"""Every family of backbone answers from token embeddings as it does from its own tokens."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models import encoder as module
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.noise import Floats2d

TEXTS = ("The doctor wrote a letter.", "We met at noon in the market when it rained.")


@pytest.fixture(params=["default", "tiny_decoder", "tiny_encoder_decoder"])
def backbone(request: pytest.FixtureRequest) -> backbones.LoadedBackbone:
    name = request.param
    return backbones.load(name if name == "default" else str(request.getfixturevalue(name)))


def published(backbone: backbones.LoadedBackbone, text: str) -> torch.Tensor:
    """The embedding by the book: ids in, mean of the states, length 1."""
    inputs = backbone.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        states = encoder_of(backbone.model)(input_ids=inputs["input_ids"]).last_hidden_state
    return F.normalize(states.mean(1), dim=1)[0]


def tokens(encoder: Encoder, backbone: backbones.LoadedBackbone, text: str) -> torch.Tensor:
    return encoder.token_embeddings(backbone.tokenizer(text, add_special_tokens=False)["input_ids"])


def test_clean_inputs_give_the_published_embedding(backbone: backbones.LoadedBackbone) -> None:
    encoder = Encoder(backbone)
    found = encoder.encode([tokens(encoder, backbone, text) for text in TEXTS])

    assert found.shape == (2, encoder.width)
    for row, text in zip(found, TEXTS, strict=True):
        torch.testing.assert_close(row, published(backbone, text), atol=2e-5, rtol=0)
    torch.testing.assert_close(found, encoder.encode_clean(TEXTS), atol=2e-5, rtol=0)


def test_the_neighbours_in_a_batch_do_not_matter(backbone: backbones.LoadedBackbone) -> None:
    encoder = Encoder(backbone)
    short, long = (tokens(encoder, backbone, text) for text in TEXTS)
    together = encoder.encode([short, long, short])

    torch.testing.assert_close(together[0], encoder.encode([short])[0], atol=2e-5, rtol=0)
    torch.testing.assert_close(together[0], together[2])


def test_texts_too_long_or_empty_are_refused(tiny_decoder: Path) -> None:
    encoder = Encoder(backbones.load(str(tiny_decoder)))
    for rows in (0, encoder.max_tokens + 1):
        with pytest.raises(InvalidInput) as caught:
            encoder.encode([torch.zeros(rows, encoder.width)])
        assert caught.value.subject == "embeddings"


def test_there_is_room_for_the_special_tokens() -> None:
    encoder = Encoder(backbones.load())
    assert encoder.max_tokens == 510
    assert encoder.encode([torch.zeros(510, encoder.width)]).isfinite().all()


TOKENS, R, WIDTH = 400, 6, 20
ONE_HOT = np.eye(TOKENS, dtype=np.float32)
"""Embeddings of which a posterior mean holds the probability of each token."""


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.fixture
def space(random: np.random.Generator) -> Floats2d:
    rows = random.standard_normal((TOKENS, R)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def embeddings(random: np.random.Generator) -> Floats2d:
    return random.standard_normal((TOKENS, WIDTH)).astype(np.float32)


@pytest.fixture
def log_prior(random: np.random.Generator) -> np.ndarray:
    return np.log(random.dirichlet(np.full(TOKENS, 0.3)) + 1e-9).astype(np.float32)


def by_definition(
    q: np.ndarray, eta: float, space: np.ndarray, log_prior: np.ndarray
) -> np.ndarray:
    scores = log_prior.astype(float) - eta * np.linalg.norm(q.astype(float) - space, axis=1)
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_means_match_the_definition_at_every_row_s_own_eta(
    space: Floats2d,
    embeddings: Floats2d,
    log_prior: np.ndarray,
    random: np.random.Generator,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_SCORES", 5 * TOKENS)  # many parts to a block
    etas = random.uniform(2, 60, rows).astype(np.float32)
    noisy = space[:rows] + noise.draw(random, rows, R, 15.0)
    found = PosteriorMean(space, embeddings, log_prior)(noisy, torch.from_numpy(etas))

    shares = [by_definition(q, eta, space, log_prior) for q, eta in zip(noisy, etas, strict=True)]
    np.testing.assert_allclose(found.numpy(), np.array(shares) @ embeddings, atol=1e-4)


def test_hardly_any_noise_gives_the_token_s_own_embedding(
    space: Floats2d, embeddings: Floats2d, log_prior: np.ndarray
) -> None:
    found = PosteriorMean(space, embeddings, log_prior)(space, 1e4)
    np.testing.assert_allclose(found.numpy(), embeddings, atol=1e-3)


def test_without_information_the_prior_answers(
    space: Floats2d, embeddings: Floats2d, log_prior: np.ndarray
) -> None:
    found = PosteriorMean(space, embeddings, log_prior)(space[:3], 1e-6)
    wanted = np.exp(log_prior.astype(float)) @ embeddings / np.exp(log_prior.astype(float)).sum()
    np.testing.assert_allclose(found.numpy(), np.tile(wanted, (3, 1)), atol=1e-4)


def test_rows_need_not_have_length_one(embeddings: Floats2d, log_prior: np.ndarray) -> None:
    found = PosteriorMean(embeddings * 3, ONE_HOT, log_prior)(embeddings * 3, 50.0)
    assert (found.numpy().argmax(1) == np.arange(TOKENS)).all()


def test_confidence_is_the_success_to_be_expected(
    space: Floats2d, embeddings: Floats2d, log_prior: np.ndarray, random: np.random.Generator
) -> None:
    """Significance: the seeded difference is within 4 standard errors."""
    shares = np.exp(log_prior.astype(float))
    ids = random.choice(TOKENS, 4_000, p=shares / shares.sum())
    noisy = space[ids] + noise.draw(random, len(ids), R, 12.0)
    attack = PosteriorMean(space, ONE_HOT, log_prior)
    hits = (attack(noisy, 12.0).numpy().argmax(1) == ids).mean()
    confidence = float(attack.confidence(noisy, 12.0).mean())

    assert 0.1 < hits < 0.9
    assert abs(hits - confidence) < 4 * (hits * (1 - hits) / len(ids)) ** 0.5


def test_nothing_in_nothing_out(
    space: Floats2d, embeddings: Floats2d, log_prior: np.ndarray
) -> None:
    attack = PosteriorMean(space, embeddings, log_prior)
    assert attack(space[:0], 5.0).shape == (0, WIDTH)
    assert attack.dimensions == R
