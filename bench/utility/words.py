"""Which share of the words of public texts does a bundle list, and does a classifier gain by it?

Words that a bundle does not list are drawn under every policy but `personal`. A word counts as
listed if the device accepts the bundle's reading of the word. So the share holds for what happens
on the device.

With ``--levels``, logistic regression learns and is judged on releases, under one key, on the
frozen backbone's embeddings. Levels are named after the attacker's success, so bundles are compared
at equal success.

    python -m bench.utility.words --bundle build/words-60000
    python -m bench.utility.words --bundle build/words-60000 --levels clear,strong,balanced
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from pathlib import Path
from typing import Final

import numpy as np
import torch

from bench import cache, console, data
from bench.console import Figures
from bench.utility.tasks import load
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.training.trainer import Hyperparameters, probe
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.trust import TrustedWords
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.word_classes import READINGS, UNLISTED, look_up
from sottovoce.core.text.words import Kind, split

__all__ = ["SETS", "TRAIN", "Classifiers", "listed"]

TRAIN: Final = {"sst2": 2_000, "trec": 2_000}
"""Tasks, and texts to learn from."""
_CLEAR: Final = "clear"

_MOST: Final = 200_000
"""Words read of each set."""
_ALL: Final = (*READINGS, UNLISTED)


def _lines(file: Path) -> Iterator[str]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from lines


def _rows(file: Path) -> Iterator[str]:
    return (row["text"] for row in data.rows(file))


def _turns(file: Path) -> Iterator[str]:
    return (turn for line in _lines(file) for turn in json.loads(line)["turns"])


SETS: Final[dict[str, tuple[str, Callable[[Path], Iterable[str]]]]] = {
    "SST-2": ("sst2/train.tsv.gz", _rows),
    "TREC": ("trec/train.tsv.gz", _rows),
    "AG News": ("agnews/train.tsv.gz", _rows),
    "prompts": ("prompts/arena_hard_v2.jsonl.gz", _turns),
    "textbook": ("text/openstax-introduction-business.txt.gz", _lines),
    "addresses": ("text/us-presidential.txt.gz", _lines),
    "novels": ("text/novels-sample.txt.gz", _lines),
    "Wikipedia": ("text/wikitext2-valid.txt.gz", _lines),
}
"""The file of each set, and its reader."""


def listed(bundle: Bundle, texts: Iterable[str]) -> Figures:
    """Return the number of words, and the shares in percent of listed words and of unlisted ones.

    Unlisted words with a capital are mostly names. Clitics, marks and identifiers do not count.
    """
    trusted = TrustedWords.of(bundle)
    vectors = Vectors(bundle)
    found = (
        word.text
        for text in texts
        for word in split(text, trusted.clitics)
        if word.kind is Kind.WORD and not word.clitic
    )
    words = list(islice(found, _MOST))
    ids = vectors.ids([vectors.normal_form(word) for word in words])
    unlisted = look_up(trusted.readings, ids) == _ALL.index(UNLISTED)
    small = np.array([word == word.lower() for word in words])
    return {
        "words": len(words),
        "listed": 100 * float((~unlisted).mean()),
        "unlisted_small": 100 * float((unlisted & small).mean()),
        "unlisted_capital": 100 * float((unlisted & ~small).mean()),
    }


@dataclass(frozen=True)
class Classifiers:
    """Heads that learn from releases and are judged on releases; a finished one is kept.

    A seed chooses the training texts and the key of the noise. The held-out texts are the same.

    Attributes:
        bundle: of the releases.
        data: the folder of the data sets.
        kept: the folder of finished results.
    """

    bundle: Bundle
    data: Path
    kept: Path

    @cached_property
    def _privatizer(self) -> Privatizer:
        return Privatizer.of(self.bundle)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(backbone.load())

    def accuracy(self, task: str, level: str, seed: int) -> float:
        """Return the share of right answers."""
        file = self.kept / cache.name_of(self.bundle.id, task, TRAIN[task], level, seed)
        if not file.exists():
            cache.keep(file, self._accuracy(task, level, seed))
        return float(json.loads(file.read_text()))

    def _accuracy(self, task: str, level: str, seed: int) -> float:
        read = load(task, self.data, TRAIN[task], seed)
        texts = [parts[0] for parts in (*read.train.texts, *read.dev.texts)]
        if level != _CLEAR:
            setting, key = Setting(level), Key(bytes([seed]) * 32)
            texts = [self._privatizer.release(text, setting, key=key).text for text in texts]
        labels = [*read.train.labels, *read.dev.labels]
        names = sorted({*labels})
        wanted = torch.tensor([names.index(label) for label in labels])
        rows, n = self._encoder.encode_clean(texts), len(read.train.texts)
        weight, bias = probe(rows[:n], wanted[:n], Hyperparameters().probe_penalty, len(names))
        right = (rows[n:] @ weight.T + bias).argmax(1) == wanted[n:]
        return float(right.float().mean())


def main() -> None:
    parser = console.parser("utility.words", __doc__, data="the sets")
    parser.add_argument("--levels", type=console.names(), default=(), help="classify at these")
    parser.add_argument("--seeds", type=int, default=1)
    console.ask_names(parser, "--tasks", TRAIN)
    arguments = parser.parse_args()
    data.require(parser, arguments.data, *(file for file, _ in SETS.values()))
    bundle = Bundle.open(arguments.bundle)
    found = {
        name: listed(bundle, read(arguments.data / file)) for name, (file, read) in SETS.items()
    }
    figures: Figures = {
        "bundle": bundle.id,
        "words": bundle.manifest.words,
        "bytes": sum(file.bytes for file in bundle.manifest.files.values()),
        "refused": TrustedWords.of(bundle).changed,
        "sets": found,
    }
    shown = console.table(
        f"Listed words in percent: {figures['words']:,} words in {figures['bytes'] / 1e6:.1f} MB,"
        f" {figures['refused']} of them refused by the device",
        ("text",),
        ("words read", "listed", "unlisted, small letters", "unlisted, capital"),
        [
            (name, f"{each['words']:,}", *(f"{each[key]:.1f}" for key in list(each)[1:]))
            for name, each in found.items()
        ],
    )
    tables = [shown]
    if arguments.levels:
        heads = Classifiers(bundle, arguments.data, arguments.out / "cache" / "words")
        cells = [*product(range(arguments.seeds), arguments.levels, arguments.tasks)]
        found_by: dict[tuple[str, str], list[float]] = {}
        for seed, level, task in console.track(cells, "classifying"):
            found_by.setdefault((task, level), []).append(heads.accuracy(task, level, seed))
        figures["accuracy"] = [
            {"task": task, "level": level, "accuracy": each}
            for (task, level), each in found_by.items()
        ]
        rows = [
            (task, level, f"{100 * np.mean(each):.1f}", f"{100 * np.std(each):.1f}")
            for (task, level), each in found_by.items()
        ]
        title = f"Accuracy in percent, {arguments.seeds} seeds"
        tables.append(console.table(title, ("task", "level"), ("mean", "deviation"), rows))
    console.publish(arguments, figures, *tables)


if __name__ == "__main__":
    main()
