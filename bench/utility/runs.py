"""One cell of `bench.utility`: an adapter trained on released text and judged on released text.

Why it is here: the grid has over a hundred runs. All that runs share is made once: what is released
of a task, the states that enter the adapted blocks, the fitted head to start from. The rest is the
product's own trainer, step by step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import torch
from torch import Tensor

from bench.utility.tasks import Device, Task, join
from bench.utility.trunk import Trunk, cut
from sottovoce.cloud.job import Example
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import Batch, Encoded, collate, encode
from sottovoce.cloud.models.classifier import TextClassifier, pool
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt
from sottovoce.cloud.models.noise_aware import NoiseTable, WordPlaces
from sottovoce.cloud.models.precision import computing, fast_bfloat16, to_bfloat16
from sottovoce.cloud.training.linear_probe import probe
from sottovoce.cloud.training.schedule import Plan
from sottovoce.cloud.training.trainer import Recipe, step
from sottovoce.core.privacy.setting import Setting

__all__ = ["METHODS", "Backbone", "Budget", "TaskData", "learn"]

METHODS: Final[dict[str, Method]] = {
    "lora": Lora(),
    "prefix": Prefix(),
    "prompt": Prompt(),
    "full": Full(),
}

_AT_ONCE: Final = 64
"""Texts in a forward pass without gradients."""


@dataclass(frozen=True)
class Budget:
    """How much is done.

    Attributes:
        train: phrases to train on; 0 for all there are.
        blocks: of the backbone that are adapted, from the last; 0 for all.
        epochs: how often each phrase is seen.
        batch_size: phrases a step.
        plain_tokens: before a phrase, where reconstruction is on and it is the phrase's turn.
    """

    train: int
    blocks: int
    epochs: int
    batch_size: int
    plain_tokens: int


class States:
    """Sequences by place, as the adapted blocks get them: states of the trunk, or token ids."""

    def __init__(
        self, rows: Mapping[int, Encoded], pad: int, states: Mapping[int, Tensor] | None = None
    ) -> None:
        self.rows = rows
        self._pad = pad
        self._states = states

    def batch(self, places: Sequence[int], vocabulary: dict[int, int] | None = None) -> Batch:
        """Some of them, padded."""
        found = collate([self.rows[i] for i in places], self._pad, vocabulary)
        if self._states is not None:
            padded = torch.nn.utils.rnn.pad_sequence([self._states[i] for i in places], True)
            found = replace(found, ids=padded)  # `TextClassifier` takes either
        return found

    def chunks(self) -> list[list[int]]:
        """All places, in batches of similar length."""
        order = sorted(self.rows, key=lambda i: len(self.rows[i].ids))
        return [order[at : at + _AT_ONCE] for at in range(0, len(order), _AT_ONCE)]


class Backbone:
    """A backbone cut once; every run gets a tail of its own.

    Args:
        loaded: freshly.
        blocks: see `Budget`.
    """

    def __init__(self, loaded: LoadedBackbone, blocks: int) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.light = self.device.type == "cpu" and fast_bfloat16()
        loaded.model.to(self.device)
        self.tokenizer = loaded.tokenizer
        self.pad = loaded.tokenizer.pad_token_id or 0
        self._trunk: Trunk | None = None
        if blocks:
            self._trunk, loaded = cut(loaded, blocks)
            if self.light:
                to_bfloat16(self._trunk.encoder)
        self._tail = loaded

    def model(
        self,
        method: Method,
        labels: int,
        noise: NoiseTable | None = None,
        *,
        vocabulary: int = 0,
        width: int = 96,
    ) -> TextClassifier:
        """A model to train, see `TextClassifier`; where there is a trunk, ``noise`` is its own."""
        model = TextClassifier(
            replace(self._tail, model=deepcopy(self._tail.model)),
            method,
            labels,
            vocabulary=vocabulary,
            width=width,
            noise=noise.to(self.device) if noise and self._trunk is None else None,
        )
        model.to(self.device).eval()
        if self.light:
            to_bfloat16(model.encoder)
        return model

    @torch.no_grad()
    def enter(self, rows: Mapping[int, Encoded], noise: NoiseTable | None) -> States:
        """Sequences as the tail gets them."""
        found = States(rows, self.pad)
        if self._trunk is None:
            return found
        noise = noise.to(self.device) if noise else None
        states: dict[int, Tensor] = {}
        embed = self._trunk.encoder.get_input_embeddings()
        for places in found.chunks():
            batch = found.batch(places).to(self.device)
            inputs = embed(batch.ids)
            if noise is not None:
                inputs = noise.mix(inputs, batch.words)
            out = self._trunk(inputs, batch.attention).cpu()
            for i, row in zip(places, out, strict=True):
                states[i] = row[: len(rows[i].ids)].clone()
        return States(rows, self.pad, states)


class TaskData:
    """What one device released of a task under one setting, with one seed for the noise.

    Args:
        task: what to learn.
        setting: how it is released, None for not at all.
        device: releases it.
        backbone: learns it.
        budget: see there.
        seed: of the noise.
        noise: how to read the words, for the noise-aware input.
    """

    def __init__(
        self,
        task: Task,
        setting: Setting | None,
        device: Device,
        backbone: Backbone,
        budget: Budget,
        seed: int,
        noise: NoiseTable | None = None,
    ) -> None:
        self._backbone, self._budget, self.noise = backbone, budget, noise
        self._setting, self._device, self._seed = setting, device, seed
        self._places = WordPlaces(device.bundle) if noise else None
        train, dev = task.train.texts, task.dev.texts
        self.shares: dict[str, float] = {}
        if setting is not None:
            released = [device.release(texts, setting, seed) for texts in (train, dev)]
            train, dev = (each.texts for each in released)
            self.shares = {
                "protected": released[1].protected,
                "replaced": released[1].replaced,
                "replaced_all": released[1].replaced_all,
            }
        self.labels = tuple(sorted({*task.train.labels}))
        self.targets, self.wanted = (
            torch.tensor([self.labels.index(label) for label in split.labels])
            for split in (task.train, task.dev)
        )
        self._texts = join(train, backbone.tokenizer)
        self._dev_texts = join(dev, backbone.tokenizer)
        self._fronted: dict[tuple[int, ...], States] = {}

    def _enter(self, texts: Mapping[int, str], plain: Sequence[Example] | None = None) -> States:
        found = encode(self._backbone.tokenizer, [*texts.values()], plain, places=self._places)
        rows = dict(zip(texts, found, strict=True))
        return self._backbone.enter(rows, self.noise)

    @cached_property
    def train(self) -> States:
        """Phrases to learn from."""
        return self._enter(dict(enumerate(self._texts)))

    @cached_property
    def dev(self) -> States:
        """Phrases to be judged on."""
        return self._enter(dict(enumerate(self._dev_texts)))

    @cached_property
    def lengths(self) -> list[int]:
        """Sub-tokens of each phrase to learn from."""
        return [len(self.train.rows[i].ids) for i in range(len(self._texts))]

    def every(self, recipe: Recipe) -> int:
        """Of how many batches one has plain tokens: see `Recipe.every`. Plain words come from the
        backbone's list of whole words, so each adds one sub-token."""
        overhead = self._budget.plain_tokens * len(self.lengths) / sum(self.lengths)
        return max(1, math.ceil(overhead / recipe.reconstruction_cost))

    def fronted(self, places: Sequence[int]) -> States:
        """Some phrases to learn from, plain tokens of their own before each (RAPT v2, III-B2)."""
        assert self._setting is not None
        key = tuple(sorted(set(places)))  # every epoch may ask for a phrase
        if key not in self._fronted:
            count = self._budget.plain_tokens
            drawn = self._device.plain_tokens(len(key), count, self._setting, self._seed)
            plain = [
                Example(self._texts[i], "", words, ids)
                for i, (ids, words) in zip(key, drawn, strict=True)
            ]
            self._fronted = {key: self._enter({i: self._texts[i] for i in key}, plain)}
        return self._fronted[key]

    @cached_property
    def head(self) -> tuple[Tensor, Tensor]:
        """The head to start from, as the trainer fits it."""
        model = self._backbone.model(
            Lora(), len(self.labels), self.noise
        )  # untrained LoRA changes nothing
        pooled = _pooled(model, self.train, self._backbone.device)
        return probe(pooled, self.targets, Recipe().probe_penalty)


def learn(
    material: TaskData,
    backbone: Backbone,
    method: Method,
    budget: Budget,
    seed: int,
    *,
    reconstruction: bool = False,
    recipe: Recipe | None = None,
) -> Tensor:
    """Trains an adapter; what it answers on the development part: Int (examples,).

    The weights are those after the last step: nothing is chosen by looking at the results.
    """
    recipe = recipe or Recipe()
    device = backbone.device
    plan = Plan(
        range(len(material.targets)),
        material.lengths,
        size=budget.batch_size,
        epochs=budget.epochs,
        least_epochs=1,
        least_steps=1,
        seed=seed,
        warmup=recipe.warmup,
    )
    vocabulary: dict[int, int] = {}
    with_plain: set[int] = set()
    if reconstruction:
        with_plain = set(range(0, plan.steps, material.every(recipe)))
        fronted = material.fronted([i for at in with_plain for i in plan.rows(at)])
        words = sorted({word for row in fronted.rows.values() for _, word in row.plain})
        vocabulary = {word: i for i, word in enumerate(words)}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = backbone.model(
            method,
            len(material.labels),
            material.noise,
            vocabulary=len(vocabulary),
            width=recipe.reconstruction_width,
        )
        model.restore(dict(zip(("head.weight", "head.bias"), material.head, strict=True)))
        optimizer = torch.optim.AdamW(model.trained().values(), weight_decay=recipe.weight_decay)
        for at in range(plan.steps):
            rows = plan.rows(at)
            source = fronted if at in with_plain else material.train
            for group in optimizer.param_groups:
                group["lr"] = method.learning_rate * plan.rate(at)
            step(
                model,
                optimizer,
                source.batch(rows, vocabulary).to(device),
                material.targets[rows].to(device),
                weight=recipe.reconstruction_weight,
                clip=recipe.clip,
            )
    with torch.no_grad():
        logits = model.head(_pooled(model, material.dev, device).to(device))
    answers: Tensor = logits.argmax(1).cpu()
    return answers


@torch.no_grad()
def _pooled(model: TextClassifier, source: States, device: torch.device) -> Tensor:
    """What the head sees: Float (sequences, h), on the CPU."""
    found = torch.empty(len(source.rows), model.head.in_features)
    for places in source.chunks():
        batch = source.batch(places).to(device)
        with computing(model.encoder):
            found[places] = pool(model.states(batch), batch.text).float().cpu()
    return found
