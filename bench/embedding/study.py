"""Texts, cloud answers and estimates for `bench.embedding`.

Our method adds noise in the privacy space, and the cloud takes posterior means on arrival. The
target is the backbone's own embedding of the clear text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from bench import data
from bench.attacks import tokens
from bench.attacks.channels import Noised
from bench.attacks.interface import Floats, Releases
from bench.attacks.inversion import Map
from bench.resampling import drawn, interval
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.edge.measure import Classifier
from sottovoce.models.denoiser_data import Passages, encode, tokenize

__all__ = ["TASKS", "Study", "difference", "head", "information", "read_task"]

TASKS = {
    "SST-2": ("sst2/train.tsv.gz", ("text",)),
    "CoLA": ("cola/train.tsv.gz", ("text",)),
    "MRPC": ("mrpc/train.tsv.gz", ("text_a", "text_b")),
    "RTE": ("rte/train.tsv.gz", ("text_a", "text_b")),
}
"""File of each task, and its text columns."""

_HELD: int = 1_000
"""Number of passages whose vectors are in memory at once."""


@dataclass(frozen=True)
class Study:
    """The cloud's encoder and the device's denoiser, from one bundle.

    Attributes:
        channel: `token-embedding.v1` at an arbitrary level; `at` sets the level.
        encoder: the backbone.
        posterior: the cloud's posterior mean of noisy vectors.
        shipped: the bundle's denoiser.
    """

    channel: Noised
    encoder: Encoder
    posterior: PosteriorMean
    shipped: Denoiser

    @classmethod
    def of(cls, bundle: Bundle) -> Study:
        """Return the study of a bundle."""
        backbone = backbones.load()
        channel = tokens.levels_of(bundle)[0]
        posterior = tokens.posterior(channel, backbones.input_embeddings(backbone))
        denoiser = Denoiser.load(bundle.denoiser_folder, bundle)
        return cls(channel, Encoder(backbone), posterior, denoiser)

    def at(self, eta: float) -> Noised:
        """Return the mechanism at ``eta``."""
        return replace(self.channel, eta=eta)

    def read(self, texts: Sequence[str]) -> Passages:
        """Return texts as tokens."""
        return tokenize(backbones.load().tokenizer, texts)

    def clean(self, passages: Passages) -> Floats:
        """Return e_c: Floats2d (passages, width)."""
        rows = [self.encoder.token_embeddings(passages[i].tolist()) for i in range(len(passages))]
        return encode(self.encoder, rows)

    def answers(self, passages: Passages, eta: float, seed: int) -> Floats:
        """Return e_n, the cloud's answers to noisy vectors: Floats2d (passages, width)."""
        ids = passages.flat
        group = np.zeros(len(ids), np.int32)
        noisy = self.at(eta).send(ids, group, np.random.default_rng(seed))
        found = []
        for first in range(0, len(passages), _HELD):
            lengths = passages.lengths[first : first + _HELD]
            end = passages.ends[first : first + _HELD][-1]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                means = self.posterior(noisy[end - lengths.sum() : end], eta)
            found.append(encode(self.encoder, torch.split(means.float(), lengths.tolist())))
        return np.concatenate(found)

    def local(self, passages: Passages) -> Floats:
        """Return the states that the device alone computes: Floats2d (passages, width)."""
        return np.stack([self.shipped.local(passages[i].tolist()) for i in range(len(passages))])

    def denoised(self, passages: Passages, answers: Floats, eta: float) -> Floats:
        """Return the device's estimates from the cloud's answers: Floats2d (passages, width)."""
        return np.stack(
            [
                self.shipped.denoise(passages[place].tolist(), answer, eta)
                for place, answer in enumerate(answers)
            ]
        )


def read_task(folder: Path, name: str, n: int) -> tuple[list[list[str]], NDArray[np.int64]]:
    """Return the texts of ``n`` examples, one list a column, and their labels 0 and 1."""
    file, columns = TASKS[name]
    rows = data.rows(folder / file)
    rows = [rows[i] for i in np.random.default_rng(5).permutation(len(rows))[:n]]
    names = sorted({row["label"] for row in rows})
    texts = [[row[column] for row in rows] for column in columns]
    return texts, np.array([names.index(row["label"]) for row in rows])


def difference(ours: Floats, other: Floats) -> tuple[float, float, float]:
    """Return the mean of ``ours - other`` over sentences, with its 95 % interval."""
    gains = ours - other
    low, high = interval(drawn(len(gains)) @ gains / len(gains))
    return float(gains.mean()), low, high


def head(
    train: Floats, labels: NDArray[np.int64], test: Floats, wanted: NDArray[np.int64]
) -> tuple[float, float]:
    """Return accuracy and AUC of the device's two-layer classifier.

    Training and test embeddings are of the same kind.
    """
    scores = Classifier.fit(train, [str(label) for label in labels]).scores(test)[:, 1]
    positive, negative = scores[wanted == 1], scores[wanted == 0]
    wins = mannwhitneyu(positive, negative).statistic
    return float(((scores > 0.5) == wanted).mean()), float(wins / (len(positive) * len(negative)))


def information(attack: Map, releases: Releases) -> float:
    """Return a lower bound on the nats that a release tells about its symbol.

    The bound is the mean of log q(x | y) - log p(x), from Barber and Agakov. It bounds the mutual
    information I(X; Y), where q is the attacker's posterior. For noisy vectors q is exact. Then the
    estimate is exact too, if symbols are as common as the prior says.
    """
    return float(attack.log_posterior(releases.seen, releases.true).mean())
