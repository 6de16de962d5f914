"""What does the cloud's help buy an embedding, and at which attack success?

The bench runs Split-and-Denoise with the bundle's denoiser. It compares the device alone with a
device that uses the cloud's answers. The cloud takes posterior means of noise in the privacy
space. Both are compared at equal success of the maximum-a-posteriori attacker on single tokens.
Held-out text is from GLUE, and nothing was trained on it.

For the published denoiser at an equal training budget, and the device's cost of a query, see
docs/snd.md.

    python -m bench.embedding --quick
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from bench import console, data
from bench.attacks import tokens
from bench.attacks.channels import Noised
from bench.attacks.interface import Attack, Floats, Releases, Seen
from bench.attacks.inversion import Map, Nearest
from bench.baselines.interface import eta_of_success
from bench.classifier import Classifier
from bench.console import Figures, Table
from bench.data import require
from bench.resampling import drawn, interval
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder, PosteriorMean
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.denoiser import Denoiser
from sottovoce.models.denoiser_data import Passages, encode, tokenize

SUCCESSES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
LENGTHS = (16, 64, 128)
"""Tokens in the passages of news."""
TASKED = (0.3, 0.6)
"""Attack success rates at which classifiers are trained."""
DRAWS = 2_000
"""Tokens of running text that attackers are judged on."""

Etas = dict[float, float]


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
    """Return a lower bound on the nats that a release reveals about its symbol.

    The bound is the mean of log q(x | y) - log p(x), from Barber and Agakov. It bounds the mutual
    information I(X; Y), where q is the attacker's posterior. For noisy vectors q is exact. Then the
    estimate is exact too, if symbols are as common as the prior says.
    """
    return float(attack.log_posterior(releases.seen, releases.true).mean())


def main() -> None:
    """Measure, and print the tables."""
    parser = console.parser("embedding", __doc__, quick="fewer sentences", data="GLUE's tasks")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    require(parser, arguments.data, *(file for file, _ in TASKS.values()))
    torch.set_num_threads(arguments.threads)
    sentences, train, test = (800, 800, 400) if arguments.quick else (1_600, 2_400, 1_000)
    bundle = Bundle.open(arguments.bundle)
    study = Study.of(bundle)
    etas = {
        success: eta_of_success(study.channel, success, 1_000)
        for success in console.track(SUCCESSES, "etas of equal attack success")
    }
    privacy = [{"success": success, **attacked(study, eta)} for success, eta in etas.items()]
    texts = [
        text
        for name in TASKS
        for text in read_task(arguments.data, name, sentences // len(TASKS))[0][0]
    ]
    found = quality(study, study.read(texts), etas)
    news = study.read(read_task(arguments.data, "RTE", 600)[0][0])
    figures = {
        "bundle": bundle.id,
        "sentences": sentences,
        "privacy": privacy,
        "quality": found,
        "lengths": by_length(study, news.flat, etas),
        "heads": classify(study, arguments.data, etas, train, test),
    }
    console.publish(arguments, figures, *show(figures))


def attacked(study: Study, eta: float) -> Figures:
    """Return the success of attackers on single vectors, and the information in a vector.

    The attackers are SnD's (eq. 14) and maximum a posteriori, on running text. Information is in
    nats about the token.
    """
    channel, random = study.at(eta), np.random.default_rng(2)
    ids = channel.candidates[0].draw(DRAWS, random)
    group = np.zeros(DRAWS, np.int32)
    seen = Seen(np.full_like(ids, -1), channel.send(ids, group, random), group, group)
    attacks: tuple[Attack, ...] = (Nearest(channel), Map(channel))
    shares = {each.name: float((each.guess(seen) == ids).mean()) for each in attacks}
    return {"eta": eta, **shares, "information": information(Map(channel), Releases(seen, ids))}


def quality(study: Study, held: Passages, etas: Etas) -> list[Figures]:
    """Return cosine and squared error of each estimate of the embedding, by attack success."""
    truth, local = study.clean(held), study.local(held)
    found = []
    for success, eta in console.track(etas.items(), "held-out sentences"):
        answers = study.answers(held, eta, 3)
        estimates = {
            "the answer": answers,
            "local": local,
            "helped": study.denoised(held, answers, eta),
        }
        cosines = {name: (each * truth).sum(axis=1) for name, each in estimates.items()}
        found.append(
            {
                "success": success,
                "cosine": {name: float(each.mean()) for name, each in cosines.items()},
                "mse": {n: float(np.square(e - truth).mean()) for n, e in estimates.items()},
                "gain": difference(cosines["helped"], cosines["local"]),
            }
        )
    return found


def by_length(study: Study, news: Any, etas: Etas, each: int = 60) -> list[Figures]:
    """Return mean cosines over passages of news of each length."""
    rows = []
    for length in console.track(LENGTHS, "lengths"):
        parts = Passages(news[: each * length], np.arange(1, each + 1) * length)
        truth = study.clean(parts)
        local = float((study.local(parts) * truth).sum(axis=1).mean())
        for success in TASKED:
            answers = study.answers(parts, etas[success], 9)
            helped = study.denoised(parts, answers, etas[success])
            row = {"tokens": length, "success": success, "local": local}
            row["the answer"] = float((answers * truth).sum(axis=1).mean())
            rows.append(row | {"helped": float((helped * truth).sum(axis=1).mean())})
    return rows


def classify(study: Study, folder: Path, etas: Etas, train: int, test: int) -> list[Figures]:
    """Return accuracy and AUC of a two-layer head on each kind of embedding."""
    rows = []
    for name in console.track(TASKS, "classifiers"):
        texts, labels = read_task(folder, name, train + test)
        columns = [study.read(column) for column in texts]
        kinds = {
            "clean": [study.clean(column) for column in columns],
            "local": [study.local(column) for column in columns],
        }
        for success in TASKED:
            eta = etas[success]
            answers = [study.answers(column, eta, 4 + i) for i, column in enumerate(columns)]
            kinds[f"the answer {success}"] = answers
            kinds[f"helped {success}"] = [
                study.denoised(column, found, eta)
                for column, found in zip(columns, answers, strict=True)
            ]
        for kind, found in kinds.items():
            joined = found[0]
            if len(found) == 2:  # a pair: its differences and products
                joined = np.hstack([np.abs(found[0] - found[1]), found[0] * found[1]])
            accuracy, auc = head(joined[:train], labels[:train], joined[train:], labels[train:])
            share = float(labels[train:].mean())
            measured = {"accuracy": accuracy, "auc": auc, "majority": max(share, 1 - share)}
            rows.append({"task": name, "on": kind, **measured})
    return rows


def show(figures: Figures) -> Iterator[Table]:
    """Return the tables."""
    yield _table("tokens that attackers read off single vectors", figures["privacy"])
    for measured, title in (("cosine", "cosine with"), ("mse", "mean squared error to")):
        rows = [{"success": row["success"], **row[measured]} for row in figures["quality"]]
        if measured == "cosine":
            for row, found in zip(rows, figures["quality"], strict=True):
                mean, low, high = found["gain"]
                row["helped over local, 95 %"] = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
        yield _table(f"{title} the clean embedding, held-out sentences", rows)
    yield _table("cosine by length of the text", figures["lengths"])
    yield _table("two-layer heads on the device", figures["heads"])


def _table(title: str, rows: list[Figures]) -> Table:
    cells = (
        [f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row.values()]
        for row in rows
    )
    return console.table(title, (), [*rows[0]], cells)


if __name__ == "__main__":
    main()
