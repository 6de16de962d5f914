"""Shadow models: confidences of adapters trained on random parts of a pool of examples.

The membership attack needs dozens of models of every target, trained by the product's own trainers.
Each result is kept on disk, so a killed run continues. A target is a name and a `Learner`; another
training method joins by adding a `Learner`.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from torch import Tensor

from bench import cache, console
from bench.attacks.interface import Floats
from bench.data import rows
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.batches import collate, encode
from sottovoce.cloud.models.classifier import encoder_of, pool
from sottovoce.cloud.models.rows import Row, run
from sottovoce.cloud.training.dp_sgd.trainer import DpHyperparameters, fit_head, train_private
from sottovoce.cloud.training.trainer import Hyperparameters, probe, train
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.text.tagger import OnnxTagger

__all__ = ["CLEAR", "HEAD", "METHODS", "Bools", "Learner", "Pool", "Target"]
__all__ += ["confidences", "seen_by"]

Bools = NDArray[np.bool_]
Learner = Callable[[Bools], Mapping[str, Tensor]]
"""A function of training members, Bools1d (N,), that returns the log-probabilities of all labels,
Float (N, C), by the kind of query over the whole pool.
"""

CLEAR: Final = "clear"
HEAD: Final = "head"
METHODS: Final = (HEAD, "lora", "prompt", "prefix")

_RAREST: Final = 50
"""Labels of fewer than one in this many examples are left out."""

_ROWS: Final = 64
_REVISION: Final = 1
"""Goes up when a change here makes earlier results wrong."""


@dataclass(frozen=True)
class Target:
    """The attacked adapter: its method, its training text (clear or released) and its ``epsilon``.

    An ``epsilon`` of 0 means training without differential privacy.
    """

    method: str
    release: str
    epsilon: float

    def __str__(self) -> str:
        private = f", epsilon {self.epsilon:g}" if self.epsilon else ""
        return self.method + private + ("" if self.release == CLEAR else f", {self.release}")

    @property
    def options(self) -> TrainingOptions:
        """Return the options of the training job."""
        return TrainingOptions(self.method, dp_epsilon=self.epsilon)


def confidences(log_probabilities: Tensor, targets: Tensor) -> Floats:
    """Return log p / (1 - p) of the right label, Floats1d (N,); nearly normal over models."""
    right = log_probabilities.double().gather(1, targets[:, None])[:, 0]
    wrong = torch.log(-torch.expm1(right.clamp(max=-1e-12)))
    found: Floats = (right - wrong).numpy()
    return found


class Pool:
    """The pool from which members are drawn, and the ways to train on some examples.

    Args:
        data: folder of data sets.
        task: name of the task.
        size: number of examples.
        bundle: folder of the bundle; opened only for releases.
    """

    def __init__(self, data: Path, task: str, size: int, bundle: Path) -> None:
        found = rows(data / task / "train.tsv.gz")
        counts = Counter(row["label"] for row in found)  # each is to be in every half
        found = [row for row in found if counts[row["label"]] * _RAREST >= len(found)]
        chosen = np.random.default_rng(1).choice(len(found), size, replace=False)
        self._texts = tuple(found[at]["text"].strip() for at in chosen)
        self.labels = tuple(found[at]["label"] for at in chosen)
        names = sorted(set(self.labels))
        self.targets = torch.tensor([names.index(label) for label in self.labels])
        self._bundle = bundle

    @lru_cache  # noqa: B019 - a program has one pool
    def texts(self, release: str) -> tuple[str, ...]:
        """Return the pool's texts, in clear or released at a level."""
        if release == CLEAR:
            return self._texts
        bundle, random = Bundle.open(self._bundle), np.random.default_rng(2)
        tagger = OnnxTagger.load(bundle.tagger_folder)
        privatizer = Privatizer.of(bundle, tagger=lambda: tagger)
        setting = Setting(release)
        return tuple(privatizer.release(text, setting, random).text for text in self._texts)

    def learner(self, target: Target) -> Learner:
        """Return the learner for a target; it is queried with its training text and clear text."""
        asked = {"the release" if target.release != CLEAR else "the text": target.release}
        if target.release != CLEAR:
            asked["the clear text"] = CLEAR
        learn = self._head if target.method == HEAD else self._adapter

        def answers(inside: Bools) -> dict[str, Tensor]:
            return learn(target, np.flatnonzero(inside), asked)

        return answers

    def _head(
        self, target: Target, inside: NDArray[np.int64], asked: Mapping[str, str]
    ) -> dict[str, Tensor]:
        """Train heads on frozen states: the trainers' numbers, thousands of times faster."""
        states, targets = self._frozen(target.release)[inside], self.targets[inside]
        labels = int(self.targets.max()) + 1
        if target.epsilon:
            stage = DpHyperparameters().plan(target.options, len(inside)).head
            weight, bias = fit_head(states, targets, labels, stage)
        else:
            weight, bias = probe(states, targets, Hyperparameters().probe_penalty, labels)
        return {
            name: torch.log_softmax(self._frozen(release) @ weight.T + bias, 1)
            for name, release in asked.items()
        }

    def _adapter(
        self, target: Target, inside: NDArray[np.int64], asked: Mapping[str, str]
    ) -> dict[str, Tensor]:
        texts = self.texts(target.release)
        examples = [Example(texts[at], self.labels[at]) for at in inside]
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "adapter"
            made = train_private if target.epsilon else train
            made(examples, target.options, backbone.load(), place)
            adapter = adapters.load(place)
        loaded = backbone.load()
        row = adapter.method.row(encoder_of(loaded.model), adapter.tensors)
        assert adapter.weight is not None
        assert adapter.bias is not None
        found = {}
        for name, release in asked.items():
            states = _states(loaded, row, self.texts(release))
            found[name] = torch.log_softmax(states @ adapter.weight.T + adapter.bias, 1)
        return found

    @lru_cache  # noqa: B019 - a program has one pool
    def _frozen(self, release: str) -> Tensor:
        """Return frozen states, divided by the typical length of clear ones."""
        clear = _states(backbone.load(), Row(), self._texts)
        texts = self.texts(release)
        states = clear if texts is self._texts else _states(backbone.load(), Row(), texts)
        found: Tensor = states / clear.norm(dim=1).mean()
        return found


def seen_by(pool: Pool, target: Target, members: Bools, place: Path) -> dict[str, Floats]:
    """Return every model's confidence in every example, by the kind of query: Floats2d (models, N).

    Args:
        pool: the examples.
        target: the attacked adapter.
        members: Bools2d (models, N), the training members of each model.
        place: cache folder; models that were trained before are read from there.
    """
    recipe = DpHyperparameters() if target.epsilon else Hyperparameters()
    facts = (pool.texts(target.release), pool.labels, target, recipe, len(members))
    folder = place / cache.name_of(_REVISION, *facts)
    learn, found = pool.learner(target), []
    for at, inside in enumerate(console.track(list(members), str(target))):
        file = folder / f"{at}.safetensors"
        if not file.is_file():
            made = {name: confidences(x, pool.targets) for name, x in learn(inside).items()}
            with cache.aside(file) as path:
                save_file(made, path)
        found.append(load_file(file))
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


@torch.no_grad()
def _states(loaded: backbone.LoadedBackbone, row: Row, texts: tuple[str, ...]) -> Tensor:
    encoder = encoder_of(loaded.model)
    encoded = encode(loaded.tokenizer, list(texts))
    by_length = sorted(range(len(encoded)), key=lambda at: len(encoded[at].ids))
    found = torch.empty(len(encoded), encoder.config.hidden_size)
    for start in range(0, len(encoded), _ROWS):
        places = by_length[start : start + _ROWS]
        batch = collate([encoded[at] for at in places], loaded.tokenizer.pad_token_id or 0)
        hidden = run(encoder, batch.ids, batch.attention, [row] * len(places))
        found[places] = pool(hidden, batch.text)
    return found
