"""The NER attack: find names, places and organisations in released text.

RAPT v2 (IV-A3) trains an entity tagger on released text with known labels, and reports its F1. The
attack finds the place and the kind of a name; other attacks recover the name. The tagger reads each
word's vector and form, its neighbours' and, through one layer of convolution, theirs.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.attacks.interface import Floats
from bench.resampling import drawn, interval
from sottovoce.core.text.tagger import form_features

__all__ = ["Entities", "EntityTagger", "f1", "read_entities"]

_BUCKETS: Final = 1 << 15
_WIDTH: Final = 128
_EPOCHS: Final = 8
_BATCH: Final = 32
_DROP: Final = 0.4


@dataclass(frozen=True)
class Entities:
    """Sentences of tokens, with the label of each token (IOB2)."""

    tokens: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[str, ...], ...]


def read_entities(file: Path, n: int | None = None) -> Entities:
    """The first ``n`` sentences of a file of JSON lines, or all."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines][:n]
    rows = [row for row in rows if row["tokens"]]
    return Entities(
        tuple(tuple(row["tokens"]) for row in rows), tuple(tuple(row["ner_tags"]) for row in rows)
    )


class EntityTagger(nn.Module):
    """A convolutional tagger over hashed forms and public vectors."""

    def __init__(self, rows: Floats, numbers: dict[str, int], labels: Sequence[str]) -> None:
        super().__init__()
        self._rows, self._numbers, self.labels = rows, numbers, tuple(labels)
        self._kept: dict[str, tuple[list[int], Floats]] = {}
        self.forms = nn.EmbeddingBag(_BUCKETS, _WIDTH, mode="sum")
        nn.init.normal_(self.forms.weight, std=0.05)
        self.vectors = nn.Linear(rows.shape[1], _WIDTH)
        self.near = nn.Conv1d(_WIDTH, _WIDTH, 3, padding=1)
        self.far = nn.Conv1d(_WIDTH, _WIDTH, 3, padding=1)
        self.drop = nn.Dropout(_DROP)
        self.out = nn.Linear(2 * _WIDTH, len(labels))

    @classmethod
    def fit(cls, text: Entities, rows: Floats, numbers: dict[str, int], seed: int = 0) -> Self:
        """Train on labelled, released text.

        Args:
            text: released text, with the labels of the original words.
            rows: Floats2d (words, d), public vectors.
            numbers: row numbers of the lower-case words.
            seed: seed of the training.
        """
        torch.manual_seed(seed)
        random = np.random.default_rng(seed)
        labels = sorted({label for each in text.labels for label in each})
        tagger = cls(rows, numbers, labels)
        optimizer = torch.optim.AdamW(tagger.parameters(), lr=3e-3, weight_decay=1e-2)
        steps = _EPOCHS * max(1, len(text.tokens) // _BATCH)
        pace = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps + 1, pct_start=0.1)
        place = {label: number for number, label in enumerate(labels)}
        for _ in range(_EPOCHS):
            order = random.permutation(len(text.tokens))
            for which in np.array_split(order, max(1, len(order) // _BATCH)):
                chosen = which.tolist()
                wanted = [
                    torch.tensor([place[label] for label in text.labels[each]]) for each in chosen
                ]
                padded = nn.utils.rnn.pad_sequence(wanted, batch_first=True, padding_value=-100)
                scores = tagger([text.tokens[each] for each in chosen])
                loss = nn.functional.cross_entropy(scores.flatten(0, 1), padded.flatten())
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                pace.step()
        return tagger.eval()

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """Return the scores of the labels: Float (sentences, longest, labels)."""
        longest = max(map(len, sentences))
        ids: list[int] = []
        starts: list[int] = []
        vectors = np.zeros((len(sentences), longest, self._rows.shape[1]), np.float32)
        for row, sentence in enumerate(sentences):
            for place in range(longest):
                starts.append(len(ids))
                if place < len(sentence):
                    features, vector = self._look(sentence[place])
                    ids += features
                    vectors[row, place] = vector
        forms = self.forms(torch.tensor(ids), torch.tensor(starts))
        words = torch.relu(
            forms.view(len(sentences), longest, -1) + self.vectors(torch.from_numpy(vectors))
        )
        words = self.drop(words)
        across = torch.relu(self.near(words.transpose(1, 2)))
        across = torch.relu(self.far(across) + across).transpose(1, 2)
        found: Tensor = self.out(torch.cat([words, self.drop(across)], dim=2))
        return found

    @torch.no_grad()
    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the labels of every token."""
        found = []
        for start in range(0, len(sentences), _BATCH):
            part = sentences[start : start + _BATCH]
            for tokens, row in zip(part, self(part).argmax(2).tolist(), strict=True):
                found.append([self.labels[label] for label in row[: len(tokens)]])
        return found

    def _look(self, token: str) -> tuple[list[int], Floats]:
        if token not in self._kept:
            features = [zlib.crc32(each.encode()) % _BUCKETS for each in _features(token)]
            number = self._numbers.get(token.lower(), -1)
            vector = self._rows[number] if number >= 0 else np.zeros(self._rows.shape[1])
            self._kept[token] = features, np.asarray(vector, np.float32)
        return self._kept[token]


def _features(token: str) -> list[str]:
    names = [f"{place} {feature}" for place, feature in enumerate(form_features(token))]
    shape = "".join(
        "X" if c.isupper() else "x" if c.islower() else "0" if c.isdigit() else c
        for c in token[:20]
    )
    return [*names, f"shape {shape}"]


def f1(found: Sequence[Sequence[str]], truth: Sequence[Sequence[str]]) -> dict[str, Any]:
    """F1 of whole entities, right in extent and kind, and its 95 % bootstrap interval."""
    counts = np.array(
        [
            (len(_spans(a) & _spans(b)), len(_spans(a)), len(_spans(b)))
            for a, b in zip(found, truth, strict=True)
        ]
    )

    def of(total: NDArray[Any]) -> NDArray[np.float64]:
        score: NDArray[np.float64] = 2 * total[..., 0] / np.maximum(1, total[..., 1:].sum(axis=-1))
        return score

    ci = interval(of(drawn(len(counts)) @ counts))
    return {"success": float(of(counts.sum(axis=0))), "ci": ci}


def _spans(labels: Sequence[str]) -> set[tuple[int, int, str]]:
    spans, start = set(), 0
    for place, label in enumerate([*labels, "O"]):
        before = labels[place - 1] if place else "O"
        if before != "O" and label != f"I-{before[2:]}":
            spans.add((start, place, before[2:]))
        if label.startswith("B-") or (label != "O" and (before == "O" or before[2:] != label[2:])):
            start = place
    return spans
