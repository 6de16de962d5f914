"""Attribute inference: the gender and age group of an author, from released texts.

Words hidden one by one may still add up to their author. RAPT v1 (A.3.1) and v2 (IV-A2) attack with
two layers of 768 hidden units and ReLU, on the mean of the released words' vectors. This attack
uses the same network and also reads the counts of the released words, which tell more than the
mean. The attacker privatises texts of other authors and trains on those releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench import data
from bench.attacks.interface import Floats
from bench.attacks.text import Ints

__all__ = ["ATTRIBUTES", "Blogs", "infer", "read_blogs"]

ATTRIBUTES: Final = {"gender": "label", "age group": "age_group"}
"""Columns of the data set."""

_HIDDEN: Final = 768
_BATCH: Final = 64
_EPOCHS: Final = 6
_SPREAD: Final = 8.0
"""Usual length of a word's vector; the mean of a hundred vectors is at most 1 long."""
_WORDS: Final = 120
_LEAST: Final = 4
"""Minimum number of documents with a word, for the attack to learn about it."""


@dataclass(frozen=True)
class Blogs:
    """Blogs: shortened posts, with the attributes of their authors."""

    texts: tuple[str, ...]
    labels: dict[str, NDArray[np.int64]]
    classes: dict[str, int]


def read_blogs(file: Path, n: int, words: int = _WORDS) -> Blogs:
    """``n`` posts spread evenly over the file, the first ``words`` words of each."""
    rows = data.rows(file)
    rows = rows[:: max(1, len(rows) // n)][:n]
    labels, classes = {}, {}
    for name, column in ATTRIBUTES.items():
        values = sorted({row[column] for row in rows})
        labels[name] = np.array([values.index(row[column]) for row in rows])
        classes[name] = len(values)
    return Blogs(tuple(" ".join(row["text"].split()[:words]) for row in rows), labels, classes)


class _Attacker(nn.Module):
    """Two layers over the mean vector and the weighted set of words."""

    def __init__(self, rows: Floats, words: int, classes: int) -> None:
        super().__init__()
        self.words = nn.EmbeddingBag(words, _HIDDEN, mode="sum", sparse=True)
        nn.init.normal_(self.words.weight, std=0.02)
        self.mean = nn.Linear(rows.shape[1], _HIDDEN)
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(_HIDDEN, classes)

    def forward(self, ids: Tensor, starts: Tensor, weights: Tensor, means: Tensor) -> Tensor:
        hidden = self.words(ids, starts, per_sample_weights=weights) + self.mean(means)
        found: Tensor = self.out(self.drop(torch.relu(hidden)))
        return found


@dataclass(frozen=True)
class _Bags:
    """Documents as sets of words, weighted by TF-IDF to length 1, and as mean vectors."""

    ids: list[Ints]
    weights: list[Floats]
    means: Floats

    @classmethod
    def of(cls, documents: Sequence[Ints], rows: Floats, places: Ints, idf: Floats) -> _Bags:
        ids, weights, means = [], [], np.zeros((len(documents), rows.shape[1]), np.float32)
        for place, document in enumerate(documents):
            known = places[np.minimum(document, len(rows))]
            kinds, times = np.unique(known, return_counts=True)
            weight = np.log1p(times) * idf[kinds]
            ids.append(kinds.astype(np.int32))
            length = max(1e-9, float(np.linalg.norm(weight)))
            weights.append((weight / length).astype(np.float32))
            listed = document[document < len(rows)]
            if len(listed):
                means[place] = rows[listed].mean(axis=0)
        return cls(ids, weights, means)

    def batch(self, which: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ids = [self.ids[place] for place in which.tolist()]
        starts = np.cumsum([0, *(len(each) for each in ids[:-1])])
        weights = np.concatenate([self.weights[place] for place in which.tolist()])
        return (
            torch.from_numpy(np.concatenate(ids).astype(np.int64)),
            torch.from_numpy(starts),
            torch.from_numpy(weights),
            torch.from_numpy(self.means[which]),
        )


def infer(
    train: Sequence[Ints],
    labels: NDArray[np.int64],
    test: Sequence[Ints],
    truth: NDArray[np.int64],
    rows: Floats,
    seed: int = 0,
) -> dict[str, Any]:
    """Train on released documents of known authors, and judge on documents of others.

    Args:
        train: Ints1d each, word ids; ids from ``len(rows)`` on are unlisted words.
        labels: Ints1d (documents,), the attribute.
        test, truth: the documents and attributes of other authors.
        rows: Floats2d (words, d), public vectors.
        seed: seed of the training.

    Returns:
        Accuracy with its 95 % interval, and the accuracy of always naming the commonest class.
    """
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    met = np.zeros(len(rows) + 1)
    for document in train:
        met[np.unique(np.minimum(document, len(rows)))] += 1
    kept = np.flatnonzero(met >= _LEAST)
    places = np.full(len(met), len(kept), np.int32)  # the last place: all other words
    places[kept] = np.arange(len(kept))
    idf = np.log((1 + len(train)) / (1 + np.append(met[kept], 0))).astype(np.float32)
    spread = rows - rows.mean(axis=0)
    spread = (spread / np.linalg.norm(spread, axis=1).mean() * _SPREAD).astype(np.float32)
    seen, unseen = (_Bags.of(each, spread, places, idf) for each in (train, test))
    network = _Attacker(rows, len(kept) + 1, int(labels.max()) + 1)
    rest = [*network.mean.parameters(), *network.out.parameters()]
    optimizers = [
        torch.optim.SparseAdam([network.words.weight], lr=2e-3),
        torch.optim.Adam(rest, lr=2e-3),
    ]
    for _ in range(_EPOCHS):
        for which in np.array_split(random.permutation(len(train)), len(train) // _BATCH):
            loss = nn.functional.cross_entropy(
                network(*seen.batch(which)), torch.from_numpy(labels[which])
            )
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            for optimizer in optimizers:
                optimizer.step()
    network.eval()
    with torch.no_grad():
        found = network(*unseen.batch(np.arange(len(test)))).argmax(1).numpy()
    right = found == truth
    accuracy = float(right.mean())
    margin = 1.96 * float(np.sqrt(accuracy * (1 - accuracy) / len(right)))
    return {
        "success": accuracy,
        "ci": [accuracy - margin, accuracy + margin],
        "majority": float(np.bincount(truth).max() / len(truth)),
    }
