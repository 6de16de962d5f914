"""The cells of `bench.private_prompts`: a task, a release, a method, an epsilon, a seed.

Why it is here: dozens of runs on two cores must survive a kill, and the head's see the same frozen
states, which are computed once. Plan, head and trainer are the product's. All seeds of a task share
one sample and one release: only the training's random draws differ between seeds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench import cache
from bench.utility.tasks import Task, load, released
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.methods.interface import Head
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.dp_sgd.trainer import (
    DpHyperparameters,
    begin,
    features,
    fit_head,
    train_private,
)
from sottovoce.cloud.training.trainer import Hyperparameters, probe, train
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting

__all__ = ["CLEAR", "Cell", "Place", "Text", "encoding", "result", "working"]

CLEAR: Final = "clear"
_HEAD: Final = "head"
_LIGHT: Final = 0.01
"""A head's penalty that suits clear text better than the product's, which is meant for noise. Of
the two, the better on the questions themselves is what private heads are held against."""
_AT_ONCE: Final = 64
"""Number of questions in flight."""
_SAMPLE: Final = 0
"""Seed of the sample and of its release."""
_REVISION: Final = 1
"""Goes up when a change here makes earlier results wrong."""


@dataclass(frozen=True, order=True)
class Text:
    """A task's text as the cloud receives it: `CLEAR`, or released at a level."""

    task: str
    release: str


@dataclass(frozen=True, order=True)
class Cell:
    """One run; an ``epsilon`` of 0 is training without privacy."""

    text: Text
    method: str
    epsilon: float
    seed: int

    def __str__(self) -> str:
        epsilon = f"epsilon {self.epsilon:g}" if self.epsilon else "not private"
        return f"{self.text.task} {self.text.release} {self.method}, {epsilon}, seed {self.seed}"

    @property
    def options(self) -> TrainingOptions:
        """Return the options of the job."""
        return TrainingOptions(self.method, dp_epsilon=self.epsilon, seed=self.seed)


@dataclass(frozen=True)
class Place:
    """Settings of a process.

    Attributes:
        bundle, data, cache: folders.
        examples: maximum number of examples of each task.
    """

    bundle: Path
    data: Path
    cache: Path
    examples: int

    def file(self, cell: Cell) -> Path:
        """Return the file of a cell's result, named by a hash of all its inputs."""
        facts = (
            _REVISION,
            cell.text,
            cell.options,
            self.examples,
            Bundle.open(self.bundle).id,
            DpHyperparameters() if cell.epsilon else (Hyperparameters(), _LIGHT),
        )
        return self.cache / "private" / f"{cache.name_of(*facts)}.json"


def result(place: Place, cell: Cell) -> dict[str, Any] | None:
    """Return the result of a cell, or None if it was not run.

    ``right`` says for each question of the development part whether the answer was the label;
    ``train`` is the number of training examples; ``seconds`` is the time taken.
    """
    file = place.file(cell)
    return json.loads(file.read_text()) if file.is_file() else None


class _Worker:
    """The bundle and tasks that a process opens once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.bundle = Bundle.open(place.bundle)

    @lru_cache(maxsize=1)  # noqa: B019 - a process has one worker
    def released(self, text: Text) -> tuple[Task, list[str], list[str]]:
        """Return the task, and the training and test texts as the cloud receives them."""
        task = load(text.task, self.place.data, self.place.examples, _SAMPLE)
        learnt, asked = [*task.train.texts], [*task.dev.texts]
        if text.release == CLEAR:
            return task, learnt, asked
        setting = Setting(text.release)
        learnt, asked = (released(self.bundle, each, setting, _SAMPLE) for each in (learnt, asked))
        return task, learnt, asked

    def states(self, text: Text) -> dict[str, Tensor]:
        """Return the head's inputs and labels for both parts, from the cache if there."""
        task, learnt, asked = self.released(text)
        labels = task.train.labels + task.dev.labels
        name = cache.name_of(_REVISION, learnt, asked, labels)
        file = self.place.cache / "states" / f"{name}.safetensors"
        if not file.is_file():
            states, targets = _states(learnt + asked, labels)
            n = len(learnt)
            made = {"train": states[:n], "dev": states[n:]}
            made |= {"train.targets": targets[:n], "dev.targets": targets[n:]}
            with cache.aside(file) as path:
                save_file(made, path)
        return load_file(file)

    def keep_states(self, text: Text) -> None:
        self.states(text)

    def run(self, cell: Cell) -> None:
        began = time.monotonic()
        right = self._head(cell) if cell.method == _HEAD else self._adapter(cell)
        task, *_ = self.released(cell.text)
        found = {
            "right": right,
            "train": len(task.train),
            "seconds": time.monotonic() - began,
        }
        cache.keep(self.place.file(cell), found)

    def _head(self, cell: Cell) -> list[bool]:
        seen = self.states(cell.text)
        learnt, targets = seen["train"], seen["train.targets"]
        labels = int(targets.max()) + 1
        if cell.epsilon:
            stage = DpHyperparameters().plan(cell.options, len(learnt)).head
            heads = [fit_head(learnt, targets, labels, stage)]
        else:
            penalties = (Hyperparameters().probe_penalty, _LIGHT)
            heads = [probe(learnt, targets, penalty, labels) for penalty in penalties]
        answers = [(seen["dev"] @ weight.T + bias).argmax(1) for weight, bias in heads]
        right: list[list[bool]] = [(each == seen["dev.targets"]).tolist() for each in answers]
        return max(right, key=sum)

    def _adapter(self, cell: Cell) -> list[bool]:
        task, learnt, asked = self.released(cell.text)
        made = train_private if cell.epsilon else train
        found = _learnt_and_asked(learnt, task.train.labels, asked, cell.options, made)
        return [a == b for a, b in zip(found, task.dev.labels, strict=True)]


def _learnt_and_asked(
    texts: Sequence[str],
    labels: Sequence[str],
    asked: Sequence[str],
    options: TrainingOptions,
    trained: Callable[..., object],
) -> list[str]:
    """Return the label of each question, by an adapter that learnt from ``texts``.

    The product's own trainer and predictor run the job, so the figures are a tenant's.
    """
    examples = [Example(*each) for each in zip(texts, labels, strict=True)]
    with (
        TemporaryDirectory() as scratch,
        closing(ModelThread(backbones.load(), packed=False)) as thread,
    ):
        folder = Path(scratch) / "adapter"
        trained(examples, options, backbones.load(), folder)
        predictor, adapter = Predictor(thread), AdapterFiles.of(folder)
        found: list[str] = []
        for first in range(0, len(asked), _AT_ONCE):
            some = asked[first : first + _AT_ONCE]
            waiting = [predictor.submit(adapter, question) for question in some]
            found += [each.result()[0][0] for each in waiting]
    return found


def _states(texts: Sequence[str], labels: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return states, Float (N, h), divided by their typical length, and labels, Int (N,)."""
    backbone = backbones.load()
    model, _ = begin(backbone, Head(), torch.device("cpu"), DpHyperparameters().bfloat16)
    examples = [Example(*each) for each in zip(texts, labels, strict=True)]
    data = Dataset.of(examples, TrainingOptions(method=_HEAD), backbone.tokenizer)
    return features(model, data.alone, data.pad), data.targets


def encoding(place: Place) -> Callable[[Text], None]:
    """Release a task's text and compute its states, into the cache."""
    return _Worker(place).keep_states


def working(place: Place) -> Callable[[Cell], None]:
    """Run a cell, and leave its result in the cache."""
    return _Worker(place).run
