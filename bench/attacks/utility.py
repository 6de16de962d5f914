"""What a release costs in accuracy: sentiment of SST-2 from released words.

Why it is here: an owner buys protection with accuracy, so the table shows both. A plain classifier
(the device's own head, on the mean of the words' public vectors) is trained and judged on releases.
It takes a second, and ranks mechanisms. What a tuned backbone makes of releases is the matter of
`sotto customize`, not of this one.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bench.attacks.attack import Floats, Releases
from bench.attacks.channels import Public
from bench.attacks.text import Text
from sottovoce.edge.head import Head
from sottovoce.edge.vectors import unit_rows

__all__ = ["Sentiment"]


@dataclass(frozen=True)
class Sentiment:
    """Reviews cut into words, and whether they please."""

    train: Text
    test: Text
    labels: tuple[NDArray[np.int64], NDArray[np.int64]]
    rows: Floats

    @classmethod
    def read(cls, folder: Path, public: Public, n: int) -> Sentiment:
        """``n`` phrases to train on, and the development set."""
        texts, labels = [], []
        for name, most in (("train", n), ("dev", 2_000)):
            with gzip.open(folder / f"{name}.tsv.gz", "rt", encoding="utf-8", newline="\n") as file:
                rows = [*csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]
            rows = rows[:: max(1, len(rows) // most)][:most]
            documents = [row["text"] for row in rows]
            texts.append(Text.of(documents, public.lexicon, public.bundle.manifest.clitics))
            labels.append(np.array([int(row["label"]) for row in rows]))
        return cls(texts[0], texts[1], (labels[0], labels[1]), public.meaning)

    def accuracy(self, release: Callable[[Text, Generator], Releases], seed: int = 0) -> float:
        """Accuracy on the development set when all texts went through ``release``."""
        random = np.random.default_rng(seed)
        train, test = (self._means(each, release, random) for each in (self.train, self.test))
        head = Head.fit(train, [str(label) for label in self.labels[0].tolist()])
        found = np.array([int(label) for label in head.predict(test)])
        return float((found == self.labels[1]).mean())

    def _means(
        self, text: Text, release: Callable[[Text, Generator], Releases], random: Generator
    ) -> Floats:
        symbols = release(text, random).seen.symbols
        listed = symbols < len(self.rows)
        sums = np.zeros((len(text.documents), self.rows.shape[1]), np.float32)
        np.add.at(sums, text.sentence[listed], self.rows[symbols[listed]])
        times = np.bincount(text.sentence[listed], minlength=len(sums))
        return unit_rows(sums / np.maximum(1, times)[:, None] - self.rows.mean(axis=0))
