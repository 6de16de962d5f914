"""Public tasks for the measurements of accuracy, in clear text and as a device would release them.

All of these measurements use the same phrases and the same held-out part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bench.attacks.public import Remembering
from bench.data import rows
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.tagger import OnnxTagger

__all__ = ["TASKS", "Split", "Task", "files", "load", "released"]

TASKS: Final = {"sst2": 0, "agnews": 500, "trec": 500, "dbpedia": 0}
"""Tasks, and the number of rows to hold out of those without a development file."""

_HELD_OUT: Final = 20
"""Seed of the split of single-file data sets; the same for every run."""


@dataclass(frozen=True)
class Split:
    """Examples, with one label for each text."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.texts)


@dataclass(frozen=True)
class Task:
    """Training and development examples of a task.

    Attributes:
        name: one of `TASKS`.
        train: drawn at random from the data set's training part.
        dev: the data set's development file, or rows set apart from its only file by a fixed seed.
    """

    name: str
    train: Split
    dev: Split


def files(names: Sequence[str]) -> list[str]:
    """Return the files of the tasks, relative to the data folder; for `bench.data.require`."""
    return [
        f"{name}/{part}.tsv.gz"
        for name in names
        for part in (("train",) if TASKS[name] else ("train", "dev"))
    ]


def load(name: str, data: Path, train: int = 10_000, seed: int = 0) -> Task:
    """A task with up to ``train`` training examples, all where it is 0.

    Args:
        name: one of `TASKS`.
        data: the folder of data sets.
        train: how many.
        seed: which ones; it does not touch the held-out part.
    """
    known = _read(data / name / "train.tsv.gz")
    if TASKS[name]:
        order = np.random.default_rng(_HELD_OUT).permutation(len(known))
        held = [known[place] for place in np.sort(order[: TASKS[name]])]
        known = [known[place] for place in np.sort(order[TASKS[name] :])]
    else:
        held = _read(data / name / "dev.tsv.gz")
    if 0 < train < len(known):
        chosen = np.random.default_rng(seed).choice(len(known), train, replace=False)
        known = [known[place] for place in np.sort(chosen)]
    return Task(name, _split(known), _split(held))


def released(bundle: Bundle, texts: Sequence[str], setting: Setting, seed: int) -> list[str]:
    """Release each text as a device does; ``seed`` repeats the noise, which no device can."""
    random = np.random.default_rng([seed, 3])
    tagger = Remembering(OnnxTagger.load(bundle.tagger_folder))
    privatizer = Privatizer.of(bundle, tagger=lambda: tagger)
    return [privatizer.release(text, setting, random).text for text in texts]


def _read(file: Path) -> list[tuple[str, str]]:
    return [(row["text"].strip(), row["label"]) for row in rows(file)]


def _split(examples: Sequence[tuple[str, str]]) -> Split:
    return Split(tuple(text for text, _ in examples), tuple(label for _, label in examples))
