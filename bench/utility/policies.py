"""Which words should be hidden? The accuracy of each policy, at equal success of one attacker.

Every policy at every level is measured. The figures are accuracy on releases, and the share of
*all* content words that an attacker recovers from them. Words that passed count as recovered. A
killed run continues. See docs/utility.md.

    python -m bench.utility.policies --tasks sst2,trec
"""

from __future__ import annotations

import json
import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np
import torch

from bench import cache, console, processes
from bench.attacks.frontier import Point
from bench.attacks.measures import Tally
from bench.attacks.public import Remembering
from bench.data import require
from bench.leaks.released import ReleaseError, release
from bench.utility import policy_tables
from bench.utility.policy_tables import CLEAR, Side, Study
from bench.utility.recovered import Attacker, Word, content_words, recovered, released_text
from bench.utility.runs import learnt_and_asked
from bench.utility.tasks import Task, files, load
from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.cloud.training.trainer import Hyperparameters, probe
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import DEFAULT, LEVELS, POLICIES
from sottovoce.core.text.tagger import OnnxTagger

__all__ = ["main"]

TRAIN: Final = {"sst2": 1_500, "trec": 800, "agnews": 400}
"""Training texts of each seed; different seeds have different texts."""
METHODS: Final = ("head", "lora")
RELEASED: Final = "released"
PAIRS: Final = "pairs"
"""The attacker's training text: the same texts, released under another key."""
_DECISIVE: Final = (CLEAR, DEFAULT, "names")
"""Policies under which adapters are trained too."""
_REVISION: Final = 2
"""Goes up when a change here makes earlier results wrong."""


@dataclass(frozen=True)
class Cell:
    """Releases of one task under one key, and the models trained on them."""

    task: str
    side: Side
    seed: int


@dataclass(frozen=True)
class Place:
    """Settings of a worker."""

    bundle: Path
    data: Path
    cache: Path
    methods: tuple[str, ...]

    def methods_of(self, cell: Cell) -> tuple[str, ...]:
        """Return the methods that train on a cell's releases."""
        tuned = cell.side.policy in _DECISIVE
        return self.methods if tuned else tuple(m for m in self.methods if m == "head")

    def done(self, cell: Cell) -> bool:
        """Return whether all results of a cell exist."""
        releases = () if cell.side.policy == CLEAR else (RELEASED, PAIRS)
        return all(self.file(cell, each).exists() for each in (*releases, *self.methods_of(cell)))

    def file(self, cell: Cell, what: str) -> Path:
        """Return the file with a cell's releases, or with a method's correct answers."""
        manifest = (self.bundle / "manifest.json").read_bytes()
        versions = [version(name) for name in ("torch", "transformers", "peft")]
        name = cache.name_of(
            _REVISION, what, cell, TRAIN[cell.task], Hyperparameters(), versions, manifest
        )
        return self.cache / "policies" / f"{name}.json"


class _Worker:
    """The tasks and versions that a process opens once."""

    def __init__(self, place: Place) -> None:
        self.place = place

    @cached_property
    def tagger(self) -> Remembering:
        return Remembering(OnnxTagger.load(Bundle.open(self.place.bundle).tagger_folder))

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(backbones.load())

    def run(self, cell: Cell) -> None:
        task = load(cell.task, self.place.data, TRAIN[cell.task], cell.seed)
        train, test = self._released(cell, task)
        for method in self.place.methods_of(cell):
            file = self.place.file(cell, method)
            if not file.exists():
                began = time.process_time()
                learn = self._head if method == "head" else self._adapter
                labels = learn(train, task.train.labels, test, cell.seed)
                right = [int(a == b) for a, b in zip(labels, task.dev.labels, strict=True)]
                cache.keep(file, {"right": right, "seconds": time.process_time() - began})

    def _released(self, cell: Cell, task: Task) -> tuple[list[str], list[str]]:
        """Return training and test texts, released under one key."""
        texts, n = [parts[0] for parts in (*task.train.texts, *task.dev.texts)], len(task.train)
        if cell.side.policy != CLEAR:
            file, pairs = (self.place.file(cell, what) for what in (RELEASED, PAIRS))
            if not file.exists():
                found, words = self._release(cell, texts)
                cache.keep(file, {"texts": found, "train": words[:n], "test": words[n:]})
            if not pairs.exists():
                cache.keep(pairs, {"train": self._release(cell, texts[:n])[1]})
            texts = json.loads(file.read_text())["texts"]
        return texts[:n], texts[n:]

    def _release(self, cell: Cell, texts: list[str]) -> tuple[list[str], list[list[Word]]]:
        """Release the texts under a separate key, and return them with their content words."""
        fates = release(self.place.bundle, texts, cell.side.level, cell.side.policy)
        both = [*zip(texts, fates, strict=True)]
        words = [content_words(text, each, self.tagger) for text, each in both]
        return [released_text(text, each) for text, each in both], words

    def _head(
        self, learnt: Sequence[str], labels: Sequence[str], asked: Sequence[str], _: int
    ) -> list[str]:
        """Logistic regression on the frozen backbone's embeddings, the start of every job."""
        names = sorted(set(labels))
        targets = torch.tensor([names.index(label) for label in labels])
        features = self.encoder.encode_clean([*learnt, *asked])
        known, new = features[: len(learnt)], features[len(learnt) :]
        weight, bias = probe(known, targets, Hyperparameters().probe_penalty, len(names))
        return [names[at] for at in (new @ weight.T + bias).argmax(1).tolist()]

    def _adapter(
        self, learnt: Sequence[str], labels: Sequence[str], asked: Sequence[str], seed: int
    ) -> list[str]:
        """LoRA by the product's trainer and predictor."""
        return learnt_and_asked(learnt, labels, asked, TrainingOptions("lora", seed=seed))


def working(place: Place) -> Callable[[Cell], None]:
    """Run a cell, and leave its results in the cache."""
    return _Worker(place).run


def sides(policies: Iterable[str], named: Sequence[str] = LEVELS) -> list[Side]:
    """Return the compared sides; `names` has one level, because it noises few words."""
    found = [Side(CLEAR, "")]
    for policy in policies:
        levels = ("balanced",) if policy == "names" else named
        found += [Side(policy, level) for level in levels]
    return found


def studies(place: Place, cells: Sequence[Cell]) -> list[Study]:
    """Return the results of the cells, by task and method."""
    by: dict[tuple[str, Side], list[Cell]] = {}
    for cell in cells:
        by.setdefault((cell.task, cell.side), []).append(cell)
    found: dict[tuple[str, str], dict[Side, Point]] = {}
    for (task, side), some in by.items():
        tallies = {} if side.policy == CLEAR else _attacked(place, some)
        for method in place.methods_of(some[0]):
            made = [place.file(cell, method) for cell in some]
            right = [json.loads(file.read_text())["right"] for file in made]
            point = Point(str(side), side.level, tallies, {"accuracy": np.array(right, np.float32)})
            found.setdefault((task, method), {})[side] = point
    return [Study(task, method, points) for (task, method), points in found.items()]


def _attacked(place: Place, cells: Sequence[Cell]) -> dict[str, Tally]:
    """Return the recovered words, by attack.

    "all" and "names" are content words and names, recovered by an attacker with another device.
    "known" are all content words, recovered by an attacker with the texts that were sent for
    training.
    """

    def read(what: str, part: str) -> list[list[Word]]:
        kept = [json.loads(place.file(cell, what).read_text())[part] for cell in cells]
        return [[Word(*word) for word in words] for each in kept for words in each]

    attacker, insider = (
        Attacker(word for words in read(what, "train") for word in words)
        for what in (PAIRS, RELEASED)
    )
    documents = read(RELEASED, "test")
    names = [[word for word in words if word.name] for words in documents]
    return {
        "all": _tally(documents, attacker, len(cells)),
        "names": _tally(names, attacker, len(cells)),
        "known": _tally(documents, insider, len(cells)),
    }


def _tally(documents: Sequence[Sequence[Word]], attacker: Attacker, keys: int) -> Tally:
    """Return the tally by document, summed over the keys."""
    right = [sum(recovered(word, attacker) for word in words) for words in documents]
    judged = [len(words) for words in documents]
    return Tally(*(np.reshape(each, (keys, -1)).sum(axis=0) for each in (right, judged)))


def main() -> None:
    """Run the missing cells, and print the tables."""
    parser = console.parser("utility.policies", __doc__, data="the tasks")
    for option, known in (("--tasks", TRAIN), ("--policies", POLICIES), ("--methods", METHODS)):
        console.ask_names(parser, option, known)
    parser.add_argument("--levels", type=console.names(), default=LEVELS, help="of the policies")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--processes", type=int, help="default: one a core")
    arguments = parser.parse_args()
    require(parser, arguments.data, *files(arguments.tasks))
    try:
        _measure(arguments)
    except ReleaseError as error:
        parser.error(str(error))


def _measure(arguments: Namespace) -> None:
    place = Place(
        bundle=arguments.bundle.resolve(),
        data=arguments.data.resolve(),
        cache=(arguments.out / "cache").resolve(),
        methods=arguments.methods,
    )
    chosen = sides(arguments.policies, arguments.levels)
    cells = [
        Cell(task, side, seed)
        for seed in range(arguments.seeds)
        for side in chosen
        for task in arguments.tasks
    ]
    cells.sort(key=lambda cell: cell.side.policy not in _DECISIVE)  # what decides comes first
    missing = [cell for cell in cells if not place.done(cell)]
    count, began = arguments.processes or os.cpu_count() or 1, time.monotonic()
    done = processes.share_out(working, place, missing, count)
    for _ in console.track(done, "releases and runs", total=len(missing)):
        pass
    found = studies(place, cells)
    result = {
        "bundle": Bundle.open(place.bundle).id,
        "versions": console.versions("torch", "transformers", "peft", "numpy"),
        "train": {task: TRAIN[task] for task in arguments.tasks},
        "seeds": arguments.seeds,
        "seconds": time.monotonic() - began,
        **policy_tables.figures(found),
    }
    console.publish(arguments, result, *policy_tables.show(result))


if __name__ == "__main__":
    main()
