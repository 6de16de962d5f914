"""The two ways through the cloud that `bench.embedding` compares, and the networks trained for it.

Ours: noise in the privacy space, posterior means on arrival. The published one: noise over the full
width, clipped to the longest embedding, and its own denoiser, trained here.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bench.embedding.measures import Mechanism
from sottovoce.cloud.denoiser import data, training
from sottovoce.cloud.denoiser.data import Answers, Passages
from sottovoce.cloud.denoiser.paper import PaperNetwork, PaperSize
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.models.posterior import PosteriorMean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.core.privacy.vectors import unit_rows

__all__ = [
    "TASKS",
    "Floats",
    "Published",
    "Study",
    "ask_paper",
    "etas_within",
    "fit_paper",
    "read_task",
    "say",
    "shipped_estimates",
]

TASKS = {
    "SST-2": ("sst2/train.tsv.gz", ("text",), "label"),
    "CoLA": ("cola/train.tsv.gz", ("text",), "label"),
    "MRPC": ("mrpc/train.tsv.gz", ("text_a", "text_b"), "label"),
    "RTE": ("rte/train.tsv.gz", ("text_a", "text_b"), "label"),
}
"""File, columns of text, column of the label."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Study:
    """What everything is made with."""

    encoder: Encoder
    narrow: Mechanism
    wide: Mechanism
    longest: float
    """Norm of the longest token embedding: where the published mechanism clips (eq. 3)."""

    @classmethod
    def of(cls, bundle: Bundle) -> Study:
        """The bundle's privacy space, and the backbone's own for the published way."""
        backbone = backbones.load()
        encoder, embeddings = Encoder(backbone), backbones.input_embeddings(backbone)
        log_prior = np.load(bundle.folder / "token_prior.npy")
        rows = unit_rows(np.asarray(bundle.tokens))
        narrow = Mechanism(
            "privacy space", rows, PosteriorMean(rows, embeddings, log_prior), log_prior
        )
        none = np.zeros((len(embeddings), 0), np.float32)
        wide = Mechanism(
            "full width", embeddings, PosteriorMean(embeddings, none, log_prior), log_prior
        )
        return cls(encoder, narrow, wide, float(np.linalg.norm(embeddings, axis=1).max()))

    def clean(self, passages: Passages) -> Floats:
        """e_c: Floats2d (passages, width)."""
        tokens = [self.encoder.token_embeddings(passages[i].tolist()) for i in range(len(passages))]
        return data.encode(self.encoder, tokens)

    def helped(self, passages: Passages, etas: Floats, seed: int) -> Answers:
        """Answers from noise in the privacy space and posterior means."""
        random = np.random.default_rng(seed)
        slopes = np.repeat(etas, passages.lengths)
        steps = self.narrow.noisy(passages.flat, 1.0, random) - self.narrow.rows[passages.flat]
        noisy = self.narrow.rows[passages.flat] + steps / slopes[:, None]
        found = []
        for first in range(0, len(passages), 1_000):  # bounds what is held
            lengths = passages.lengths[first : first + 1_000]
            end = passages.ends[first : first + 1_000][-1]
            part = slice(end - lengths.sum(), end)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                means = self.narrow.posterior(noisy[part], torch.from_numpy(slopes[part]))
            found.append(data.encode(self.encoder, torch.split(means.float(), lengths.tolist())))
        return Answers(etas, np.concatenate(found).astype(np.float16))

    def published(self, ids: NDArray[np.int32], eta: float, random: np.random.Generator) -> Floats:
        """Full-width noisy tokens, clipped to the longest embedding: Floats2d (n, width)."""
        noisy = self.wide.noisy(ids, eta, random)
        lengths = np.linalg.norm(noisy, axis=1, keepdims=True)
        clipped: Floats = noisy * np.minimum(1, self.longest / lengths).astype(np.float32)
        return clipped


@dataclass(frozen=True)
class Published:
    """Passages as the published denoiser sees them: noisy tokens, noise and answer of each."""

    noisy: list[Floats]
    noise: list[Floats]
    answers: Floats

    @classmethod
    def of(cls, world: Study, passages: Passages, etas: Floats, seed: int) -> Published:
        """With fresh noise at ``etas``."""
        random = np.random.default_rng(seed)
        ids = [passages[place] for place in range(len(passages))]
        noisy = [
            world.published(row, eta, random) for row, eta in zip(ids, etas.tolist(), strict=True)
        ]
        noises = [sent - world.wide.rows[row] for sent, row in zip(noisy, ids, strict=True)]
        answers = data.encode(world.encoder, [torch.from_numpy(each) for each in noisy])
        return cls(noisy, noises, answers)

    def inputs(self, places: NDArray[np.int64]) -> tuple[torch.Tensor, ...]:
        """A padded batch for `PaperNetwork.forward`."""
        pad = torch.nn.utils.rnn.pad_sequence
        noisy, noises = (
            pad([torch.from_numpy(each[place]) for place in places.tolist()], batch_first=True)
            for each in (self.noisy, self.noise)
        )
        lengths = torch.tensor([len(self.noisy[place]) for place in places.tolist()])
        mask = (torch.arange(noisy.shape[1]) < lengths[:, None]).float()
        return torch.from_numpy(self.answers[places]), noisy, noises, mask


def fit_paper(seen: Published, targets: Floats, lengths: NDArray[np.int64], epochs: int) -> Any:
    """(a) trained with eq. 12, on as many passages as (b) and (c)."""
    torch.manual_seed(7)
    network = PaperNetwork(PaperSize())
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-4, weight_decay=0.0, fused=True)
    batches = [
        batch
        for epoch in range(epochs)
        for batch in training.batches(lengths, 3_000, np.random.default_rng([7, epoch]))
    ]
    for step, places in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = 5e-4 * training.pace(step / len(batches))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = network(*seen.inputs(places))
        loss = (found.float() - torch.from_numpy(targets[places])).square().sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if step % 50 == 0:
            say(f"(a) step {step} of {len(batches)}")
    return network.eval()


def ask_paper(network: Any, seen: Published) -> Floats:
    """(a)'s estimates: Floats2d (passages, width)."""
    places = np.array_split(np.arange(len(seen.noisy)), max(1, len(seen.noisy) // 32))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        found = [network(*seen.inputs(each)).float().numpy() for each in places]
    return np.concatenate(found)


def shipped_estimates(denoiser: Denoiser, passages: Passages, answers: Answers | None) -> Floats:
    """What the device computes: Floats2d (passages, width)."""
    rows = []
    for place in range(len(passages)):
        ids = passages[place].tolist()
        if answers is None:
            rows.append(denoiser.local(ids))
        else:
            answer = answers.embeddings[place].astype(np.float32)
            rows.append(denoiser.denoise(ids, answer, float(answers.eta[place])))
    return np.stack(rows)


def etas_within(etas: Sequence[float], n: int, seed: int) -> Floats:
    """One a passage, evenly in proportion between the lowest and the highest."""
    low, high = np.log(min(etas)), np.log(max(etas))
    drawn: Floats = np.exp(np.random.default_rng(seed).uniform(low, high, n)).astype(np.float32)
    return drawn


def read_task(folder: Path, name: str, n: int) -> tuple[list[list[str]], NDArray[np.int64]]:
    """The texts of ``n`` examples, one list a column, and their labels 0 and 1."""
    file, columns, label = TASKS[name]
    with gzip.open(folder / file, "rt", encoding="utf-8", newline="\n") as lines:
        rows = [*csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]
    rows = [rows[i] for i in np.random.default_rng(5).permutation(len(rows))[:n]]
    names = sorted({row[label] for row in rows})
    texts = [[row[column] for row in rows] for column in columns]
    return texts, np.array([names.index(row[label]) for row in rows])


def say(what: str) -> None:
    """Progress."""
    print(what, file=sys.stderr, flush=True)
