"""The shipped denoiser keeps its model card's promises on sentences it was not trained on.

Significance: each gain is at least 2.6 standard errors above nothing (one-sided, .005), on fixed
sentences and seeded noise.
"""

import csv
import gzip

import numpy as np
import pytest
import torch

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import noise
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.core.privacy.vectors import unit_rows
from sottovoce.models import denoiser_data
from tests.support.sentences import sentences
from tests.support.shared_data import shared_data

SST2 = "sst2/dev.tsv.gz"
ENOUGH = 100
"""Sentences that show even a small gain."""


def phrases() -> list[str]:
    """Public text, where there is any."""
    with gzip.open(shared_data(SST2) / SST2, "rt", encoding="utf-8", newline="\n") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["text"] for row in rows][:120]


def ours() -> list[str]:
    return [" ".join(words) for words, _ in sentences()]


@pytest.fixture(scope="module", params=[phrases, ours])
def cosines(bundle: Bundle, request: pytest.FixtureRequest) -> dict[str, dict[str, np.ndarray]]:
    """By level: cosine with the clean embedding of the answer, of the local and of the helped."""
    texts = request.param()
    model = backbones.load()
    encoder = Encoder(model)
    passages = denoiser_data.tokenize(model.tokenizer, texts)
    ids = [passages[place] for place in range(len(passages))]
    truth = denoiser_data.encode(encoder, [encoder.token_embeddings(row.tolist()) for row in ids])
    space = unit_rows(np.asarray(bundle.tokens))
    log_prior = np.load(bundle.folder / "token_prior.npy")
    posterior = PosteriorMean(space, backbones.input_embeddings(model), log_prior)
    denoiser = Denoiser.load(bundle.denoiser_folder, bundle)
    local = np.stack([denoiser.local(row.tolist()) for row in ids])
    found = {}
    for name, level in bundle.manifest.embed.items():
        random = np.random.default_rng(4)
        steps = noise.draw(random, len(passages.flat), space.shape[1], level.eta)
        means = posterior(space[passages.flat] + steps, level.eta)
        answers = denoiser_data.encode(encoder, torch.split(means, passages.lengths.tolist()))
        denoised = np.stack(
            [
                denoiser.denoise(row.tolist(), answer, level.eta)
                for row, answer in zip(ids, answers, strict=True)
            ]
        )
        found[name] = {
            kind: (rows * truth).sum(axis=1)
            for kind, rows in (("answer", answers), ("local", local), ("denoised", denoised))
        }
    return found


def surely_above(ours: np.ndarray, other: np.ndarray) -> bool:
    gains = ours - other
    return bool(gains.mean() > 2.6 * gains.std() / len(gains) ** 0.5)


@pytest.mark.parametrize("level", ["strong", "balanced", "light"])
def test_denoising_betters_the_answer_at_every_level(
    cosines: dict[str, dict[str, np.ndarray]], level: str
) -> None:
    denoised, answer = cosines[level]["denoised"], cosines[level]["answer"]
    if level == "light" and len(answer) < ENOUGH:
        assert (denoised - answer).mean() > -0.005  # little noise, few sentences: no harm
    else:
        assert surely_above(denoised, answer)


@pytest.mark.parametrize("level", ["balanced", "light"])
def test_the_round_trip_betters_the_device_alone(
    cosines: dict[str, dict[str, np.ndarray]], level: str
) -> None:
    assert surely_above(cosines[level]["denoised"], cosines[level]["local"])


def test_the_round_trip_never_harms(cosines: dict[str, dict[str, np.ndarray]]) -> None:
    gains = cosines["strong"]["denoised"] - cosines["strong"]["local"]
    assert gains.mean() > -0.005


def test_quality_grows_with_eta(cosines: dict[str, dict[str, np.ndarray]]) -> None:
    means = [float(each["denoised"].mean()) for each in cosines.values()]
    assert means == sorted(means)
    assert means[0] > 0.7
