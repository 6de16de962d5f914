"""What a classifier loses when its texts are privatised in a given space.

SST-2, every word replaced by T2T, the backbone's mean-pooled last layer, logistic regression:
trained on released texts, judged on released texts.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bench.space.evaluation import Language
from sottovoce.cloud.building.attack import perturb
from sottovoce.cloud.models.backbone import input_embeddings
from sottovoce.core.bundle.manifest import ANY
from sottovoce.core.privacy.noise import Floats2d
from sottovoce.core.text.words import Kind, split

__all__ = ["Probe"]

_BATCH = 64
_L2 = 1.0
"""Penalty on the squared weights, against the summed loss."""


@dataclass(frozen=True)
class _Texts:
    texts: list[str]
    labels: NDArray[np.int64]

    @classmethod
    def read(cls, path: Path, rows: int) -> _Texts:
        """``rows`` texts spread evenly over a TSV file."""
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            found = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        found = found[:: max(1, len(found) // rows)][:rows]
        return cls([row["text"] for row in found], np.array([int(row["label"]) for row in found]))


class Probe:
    """The task, and the accuracy a space leaves in it.

    Args:
        folder: of SST-2, with train.tsv.gz and dev.tsv.gz.
        language: the words, and the backbone that reads the texts.
        rows: texts to train on.
    """

    def __init__(self, folder: Path, language: Language, rows: int) -> None:
        self._model, self._words = language.model, list(language.bundle.words)
        self._members = language.classes[ANY]
        self._meaning = language.meaning
        self._tokens = input_embeddings(language.model)
        self._train = _Texts.read(folder / "train.tsv.gz", rows)
        self._dev = _Texts.read(folder / "dev.tsv.gz", 10_000)
        self._places = {self._words[member]: int(member) for member in self._members}

    def clean(self) -> float:
        """Accuracy on the texts as they are."""
        return self._accuracy(self._train.texts, self._dev.texts)

    def at(self, space: Floats2d, eta: float, seed: int) -> float:
        """Accuracy on texts released in ``space`` Floats2d (words, r), rows of any length."""
        random = np.random.default_rng(seed)
        train, dev = (
            self._release(each.texts, space, eta, random) for each in (self._train, self._dev)
        )
        return self._accuracy(train, dev)

    def _release(
        self, texts: list[str], space: Floats2d, eta: float, random: np.random.Generator
    ) -> list[str]:
        cut = [split(text) for text in texts]
        released = [[word.text for word in words] for words in cut]
        slots = [
            (text, place, self._start(word.text.lower()))
            for text, words in enumerate(cut)
            for place, word in enumerate(words)
            if word.kind is Kind.WORD
        ]
        noisy = perturb(space[[start for _, _, start in slots]], eta, random)
        columns = np.ascontiguousarray(space[self._members].T)
        half = (columns * columns).sum(axis=0) / 2
        for begin in range(0, len(slots), 256):
            chosen = (noisy[begin : begin + 256] @ columns - half).argmax(axis=1)
            for (text, place, _), nearest in zip(
                slots[begin : begin + 256], self._members[chosen].tolist(), strict=True
            ):
                released[text][place] = self._words[nearest]
        return [" ".join(words) for words in released]

    def _start(self, form: str) -> int:
        """A word's id; for one that is not listed, alike in every space, that of the listed word
        nearest in meaning."""
        if form not in self._places:
            ids = self._model.tokenizer(form, add_special_tokens=False)["input_ids"]
            mean = self._tokens[ids].mean(axis=0)
            self._places[form] = int(self._members[(self._meaning[self._members] @ mean).argmax()])
        return self._places[form]

    def _accuracy(self, train: list[str], dev: list[str]) -> float:
        seen, asked = (torch.from_numpy(self._encode(texts)) for texts in (train, dev))
        labels = torch.from_numpy(self._train.labels)
        layer = torch.nn.Linear(seen.shape[1], 2)
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
        optimizer = torch.optim.LBFGS(
            layer.parameters(), max_iter=200, line_search_fn="strong_wolfe"
        )

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            misfit = torch.nn.functional.cross_entropy(layer(seen), labels, reduction="sum")
            total = (misfit + _L2 * layer.weight.square().sum()) / len(labels)
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
        with torch.inference_mode():
            right = layer(asked).argmax(dim=1).numpy() == self._dev.labels
        return float(right.mean())

    def _encode(self, texts: list[str]) -> Floats2d:
        """Mean-pooled last layer, short texts with short ones."""
        found = np.empty((len(texts), self._model.hidden_size), np.float32)
        order = np.argsort([len(text) for text in texts])
        with torch.inference_mode():
            for begin in range(0, len(order), _BATCH):
                chosen = order[begin : begin + _BATCH]
                batch = self._model.tokenizer(
                    [texts[place] for place in chosen],
                    padding=True,
                    truncation=True,
                    return_tensors="pt",
                )
                hidden = self._model.model(**batch).last_hidden_state
                mask = batch["attention_mask"][..., None]
                found[chosen] = ((hidden * mask).sum(dim=1) / mask.sum(dim=1)).numpy()
        return found
