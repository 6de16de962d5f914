"""Utility of releases: sentiment accuracy on SST-2, and similarity of sentence embeddings.

A plain classifier, the device's own head on the mean of the words' public vectors, is trained and
judged on releases. The backbone's embeddings of each released sentence and of its original are
compared. Both measurements take seconds, and suffice to rank mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from bench import data
from bench.attacks.interface import Floats, Releases
from bench.attacks.public import Public
from bench.attacks.text import Ints, Text
from bench.classifier import Classifier
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.core.privacy.vectors import unit_rows

__all__ = ["DRAWS", "Embed", "Meaning", "Sentiment", "apart"]

Embed = Callable[[Text, Generator], Floats]
"""A function from texts to a vector for each, on fresh releases: Floats2d (documents, width)."""

DRAWS: Final = 2
"""Releases of the judged phrases. Noise differs from phrase to phrase, so more phrases narrow an
interval further than more releases of each."""
_FEW: Final = 3
_RUN: Final = 4
_LEAST: Final = 8
_BATCH: Final = 32


@dataclass(frozen=True)
class Sentiment:
    """Film reviews cut into words, with their sentiment.

    Attributes:
        train: training phrases.
        test: test phrases.
        few: every third test phrase, so that both are equally hard.
        labels: labels of the training phrases and of the test phrases.
        rows: vectors of words, Floats2d (words, width).
    """

    train: Text
    test: Text
    few: Text
    labels: tuple[NDArray[np.int64], NDArray[np.int64]]
    rows: Floats

    @classmethod
    def read(cls, folder: Path, public: Public, n: int, judged: int) -> Sentiment:
        """``n`` phrases to train on, and at most ``judged`` others: the development set, then
        phrases of the training file that are `apart` from all these."""
        train, dev = (_phrases(folder / f"{name}.tsv.gz") for name in ("train", "dev"))
        known, test = train[:: max(1, len(train) // n)][:n], dev[:judged]
        taken = [text for text, _ in (*known, *test)]
        shuffled = [train[i] for i in np.random.default_rng(0).permutation(len(train)).tolist()]
        places = islice(apart([text for text, _ in shuffled], taken), judged - len(test))
        test += [shuffled[place] for place in places]
        labels = [np.array([label for _, label in each]) for each in (known, test)]

        def read(phrases: list[tuple[str, int]]) -> Text:
            clitics = public.bundle.manifest.clitics
            return Text.of([text for text, _ in phrases], public.lexicon, clitics)

        few = read(test[::_FEW])
        return cls(read(known), read(test), few, (labels[0], labels[1]), public.meaning)

    def right(self, embed: Embed, trials: int, *, few: bool = False, seed: int = 0) -> Floats:
        """Return 1 where a test phrase is classified correctly: Floats2d (trials, phrases).

        Each trial trains on phrases drawn with replacement from the training phrases. It is judged
        on one of two releases of the test phrases (with ``few``, of one release). So the spread
        over trials and phrases covers the whole experiment.
        """
        random = np.random.default_rng(seed)
        train = self._centred(embed(self.train, random))
        judged, wanted, draws = self.test, self.labels[1], min(DRAWS, trials)
        if few:
            judged, wanted, draws = self.few, wanted[::_FEW], 1
        tests = [self._centred(embed(judged, random)) for _ in range(draws)]
        resample = np.random.default_rng(seed + 1)  # the same phrases for every mechanism
        found = []
        for trial in range(trials):
            some = resample.integers(0, len(train), len(train))
            classifier = Classifier.fit(
                train[some], [str(label) for label in self.labels[0][some].tolist()]
            )
            guesses = classifier.predict(tests[trial % len(tests)])
            found.append(np.array([int(label) for label in guesses]) == wanted)
        return np.array(found, np.float32)

    def of_words(self, release: Callable[[Text, Generator], Releases]) -> Embed:
        """Return means of the vectors of released words; unlisted words have no vector."""

        def embed(text: Text, random: Generator) -> Floats:
            symbols = release(text, random).seen.symbols
            listed = symbols < len(self.rows)
            sums = np.zeros((len(text.documents), self.rows.shape[1]), np.float32)
            np.add.at(sums, text.sentence[listed], self.rows[symbols[listed]])
            times = np.bincount(text.sentence[listed], minlength=len(sums))
            sums /= np.maximum(1, times)[:, None].astype(np.float32)
            return sums

        return embed

    def _centred(self, means: Floats) -> Floats:
        return unit_rows(means - self.rows.mean(axis=0))


def apart(phrases: Iterable[str], taken: Iterable[str]) -> Iterator[int]:
    """Return the places of phrases of at least eight words that share no run of four words with
    ``taken`` or with an earlier place.

    The training file cuts each review into many overlapping phrases. Without this filter, test
    phrases would repeat training text, and one review would count several times.
    """
    met = {run for phrase in taken for run in _runs(phrase)}
    for place, phrase in enumerate(phrases):
        runs = _runs(phrase)
        if len(runs) > _LEAST - _RUN and met.isdisjoint(runs):
            met.update(runs)
            yield place


def _runs(phrase: str) -> list[tuple[str, ...]]:
    words = phrase.split()
    return [*zip(*(words[start:] for start in range(_RUN)), strict=False)]


def _phrases(file: Path) -> list[tuple[str, int]]:
    return [(row["text"], int(row["label"])) for row in data.rows(file)]


class Meaning:
    """Similarity of the backbone's embeddings of released and original sentences."""

    def __init__(self, public: Public, text: Text) -> None:
        self._encoder = Encoder(public.backbone)
        self._lexicon, self._starts = public.lexicon, _starts(text.sentence)
        self._clear = self._encoder.encode_clean(self._sentences(text.ids))

    def of_words(self, symbols: Ints) -> Floats:
        """Return cosines for the same text's released words: Floats1d (sentences,)."""
        found = self._encoder.encode_clean(self._sentences(symbols))
        cosines: Floats = (found * self._clear).sum(1).numpy()
        return cosines

    def of_tokens(self, ids: Ints, vectors: Tensor, sentence: Ints) -> Floats:
        """Cosines for tokens that the backbone is fed with ``vectors``: Floats1d (sentences,).

        Args:
            ids: Ints1d (n,), the true ones.
            vectors: Float (n, width), in their place.
            sentence: Ints1d (n,), ascending.
        """
        parts = np.split(np.arange(len(ids)), _starts(sentence)[1:])
        parts = [part[: self._encoder.max_tokens] for part in parts]
        clear, found = (
            torch.cat(
                [
                    self._encoder.encode([rows[part] for part in parts[start : start + _BATCH]])
                    for start in range(0, len(parts), _BATCH)
                ]
            )
            for rows in (self._encoder.token_embeddings(ids.tolist()), vectors)
        )
        cosines: Floats = (found * clear).sum(1).numpy()
        return cosines

    def _sentences(self, symbols: Ints) -> Sequence[str]:
        return [self._lexicon.written(part) for part in np.split(symbols, self._starts[1:])]


def _starts(sentence: Ints) -> NDArray[np.int64]:
    return np.flatnonzero(np.diff(sentence, prepend=-1))
