"""One run of the study in ``reconstruction``: a form of reconstruction, a share, a seed.

Why it is here: forms are compared in pairs, so all that may differ between them must be in one
place. For a seed, every form sees the same phrases, the same releases, the same order and the same
first weights; what it adds is drawn from streams of its own.
"""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from bench.utility import tasks
from sottovoce.cloud.job import Example
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.batches import Batch, Encoded, collate, encode
from sottovoce.cloud.models.classifier import TextClassifier, pool
from sottovoce.cloud.models.methods import Lora, MethodConfig
from sottovoce.cloud.models.precision import computing, fast_bfloat16, to_bfloat16
from sottovoce.cloud.training.linear_probe import probe
from sottovoce.cloud.training.schedule import Plan
from sottovoce.cloud.training.trainer import Recipe
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import plain_tokens
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.tagger import OnnxTagger

__all__ = ["TEXTS", "Form", "Scale", "Study"]

TEXTS: Final = (
    *("wikitext2-valid", "novels-sample", "openstax-introduction-business", "us-presidential"),
)
"""Public running text, of other kinds than the task's."""

_LENGTHS: Final = (4, 28)
"""Words of a piece of public text."""

_LETTERS: Final = 900_000
"""Read of each text."""

Figures = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """A way to use plain tokens.

    Attributes:
        front: before every example: "" nothing, "fixed" one sequence, "varied" each its own.
        tokens: how many.
        weight: of the reconstruction's loss.
        every: of how many batches one has them.
        rows: pieces of public text beside each batch, in sequences of their own, whose protected
            words are to be named.
        start: what the adapter has learnt on public text before: "" nothing, "words" to name the
            protected ones, "states" to give released text the clear text's pooled state.
    """

    front: str = ""
    tokens: int = 40
    weight: float = 0.1
    every: int = 1
    rows: int = 0
    start: str = ""


@dataclass(frozen=True)
class Scale:
    """How much is trained and measured.

    Attributes:
        phrases: to train on, once each.
        batch: of them in a step.
        draws: releases of the dev set; accuracy is the mean over them.
        pieces: of public text.
        warm: steps on public text before the task.
    """

    phrases: int = 4_000
    batch: int = 32
    draws: int = 3
    pieces: int = 12_000
    warm: int = 400


@dataclass(frozen=True)
class _Piece:
    """Public text as it was released, with the places and ids of its protected words, and clear."""

    released: Encoded
    clear: Encoded


class Study:
    """What all runs share; nothing is computed before it is asked for."""

    def __init__(self, bundle: Bundle, folder: Path, scale: Scale) -> None:
        self.scale = scale
        self._folder = folder
        self._bundle = bundle
        self._device = tasks.Device(bundle)
        self._tokenizer = backbones.load().tokenizer
        self._policy = Setting().policy
        self._words = plain_tokens.vocabulary(bundle, self._policy)
        self._places = {int(word): place for place, word in enumerate(self._words.ids)}
        self._ids = {bundle.words[int(word)]: int(word) for word in self._words.ids}
        self._pieces: dict[float, list[_Piece]] = {}
        self._starts: dict[tuple[str, float], dict[str, Tensor]] = {}
        self._settings: dict[float, Setting] = {}

    def run(self, form: Form, share: float, seed: int, method: MethodConfig) -> Figures:
        """Trains and measures.

        Args:
            form: what is compared.
            share: of the protected words that are replaced.
            seed: of phrases, releases, weights and order.
            method: what is trained.
        """
        scale, recipe = self.scale, Recipe()
        setting = self._setting(share)
        task = tasks.load("sst2", self._folder, scale.phrases, seed)
        released = self._device.release(task.train.texts, setting, seed)
        texts = tasks.join(released.texts, self._tokenizer)
        targets = torch.tensor([int(label) for label in task.train.labels])
        alone = encode(self._tokenizer, texts)
        fronted = self._fronted(form, texts, setting, [seed, 1]) if form.front else alone
        beside = self._public(share) if form.rows else []
        rate = recipe.learning_rates[type(method)]

        model = self._model(method, seed)
        if form.start:
            model.restore(self._start(form.start, share, method))
        weight, bias = probe(self._states(model, alone), targets, recipe.probe_penalty)
        model.restore({"head.weight": weight, "head.bias": bias})
        dev = [
            self._device.release(task.dev.texts, setting, 1_000 + 10 * seed + draw).texts
            for draw in range(scale.draws)
        ]
        asked = [tasks.join(each, self._tokenizer) for each in dev]
        gold = torch.tensor([int(label) for label in task.dev.labels])
        questions = [encode(self._tokenizer, each) for each in asked]
        before = self._accuracy(model, questions[:1], gold)

        own = list(model.trained().values())
        optimizer = torch.optim.AdamW(own, weight_decay=recipe.weight_decay)
        plan = _plan(range(len(alone)), alone, scale.batch, seed)
        order = np.random.default_rng([seed, 2]).permutation(len(beside))
        began = time.process_time()
        for step in range(plan.steps):
            rows = plan.rows(step)
            plain = bool(form.front) and step % form.every == 0
            batch = self._batch([(fronted if plain else alone)[i] for i in rows])
            with computing(model.encoder):
                logits, named = model(batch)
                loss = F.cross_entropy(logits, targets[rows])
                if named is not None and form.weight:
                    loss = loss + form.weight * _named(named, batch)
                if form.rows:
                    chosen = [order[(step * form.rows + i) % len(order)] for i in range(form.rows)]
                    more = self._batch([beside[i].released for i in chosen])
                    loss = loss + form.weight * _named(model(more)[1], more)
            _update(optimizer, own, loss, rate * plan.rate(step), recipe.clip)
        taken = time.process_time() - began

        figures: Figures = {
            "share": share,
            "seed": seed,
            "level": setting.level,
            "replaced": released.replaced,
            "seconds": taken,
            "before": before,
            "accuracy": self._accuracy(model, questions, gold),
        }
        if form.front:
            fronts = [
                self._fronted(form, each, setting, [seed, 3, draw])
                for draw, each in enumerate(asked)
            ]
            figures["accuracy_with_plain_tokens"] = self._accuracy(model, fronts, gold)
        return figures

    def _setting(self, share: float) -> Setting:
        """The level at which ``share`` of the protected words are replaced."""
        if share not in self._settings:
            whole = tasks.load("sst2", self._folder)
            self._settings[share] = self._device.setting(whole, share)
        return self._settings[share]

    @cached_property
    def _privatizer(self) -> Privatizer:
        return Privatizer(self._bundle, OnnxTagger.load(self._bundle.tagger_folder))

    def _fronted(
        self, form: Form, texts: Sequence[str], setting: Setting, seed: list[int]
    ) -> list[Encoded]:
        """Texts with plain tokens in front, released for each anew."""
        random = np.random.default_rng(seed)
        # One sequence for training and predictions alike.
        fixed = self._words.draw(form.tokens, np.random.default_rng(seed[0]))
        examples = []
        for text in texts:
            ids = fixed if form.front == "fixed" else self._words.draw(form.tokens, random)
            words = self._privatizer.release_plain_tokens(ids, setting, random)
            examples.append(Example(text, "", tuple(words), tuple(ids)))
        return encode(self._tokenizer, texts, examples)

    def _public(self, share: float) -> list[_Piece]:
        """Pieces of public text, released as the task's text is."""
        if share in self._pieces:
            return self._pieces[share]
        setting = self._setting(share)
        random = np.random.default_rng(6)
        released = []
        for name in TEXTS:
            with gzip.open(
                self._folder / "text" / f"{name}.txt.gz", "rt", encoding="utf-8"
            ) as opened:
                words = opened.read(_LETTERS).replace("<unk>", "").replace(" @-@ ", "-").split()
            for start in random.integers(
                0, len(words) - _LENGTHS[1], self.scale.pieces // len(TEXTS)
            ):
                piece = " ".join(words[start : start + int(random.integers(*_LENGTHS))])
                released.append(self._privatizer.release(piece, setting, random))
        texts = [each.text for each in released]
        tokens = self._tokenizer(texts)
        clear = encode(self._tokenizer, [each.document for each in released])
        pieces = []
        for row, (noisy, plain) in enumerate(
            zip(encode(self._tokenizer, texts), clear, strict=True)
        ):
            names = []
            for word in released[row].each_word():
                number = self._ids.get(released[row].document[word.start : word.end].lower())
                place = tokens.char_to_token(row, word.released_start)
                if word.protected and number is not None and place is not None:
                    names.append((place, number))
            pieces.append(_Piece(Encoded(noisy.ids, noisy.text, tuple(names)), plain))
        self._pieces[share] = pieces
        return pieces

    def _start(self, kind: str, share: float, method: MethodConfig) -> dict[str, Tensor]:
        """What an adapter learns on public text, once for a bundle and a setting."""
        if (kind, share) in self._starts:
            return self._starts[kind, share]
        pieces, recipe = self._public(share), Recipe()
        model = self._model(method, 0)
        untouched = self._model(Lora(), 0)  # a fresh LoRA adds nothing
        clear = self._states(untouched, [each.clear for each in pieces])
        own = {n: p for n, p in model.trained().items() if not n.startswith("head.")}
        optimizer = torch.optim.AdamW(own.values(), weight_decay=recipe.weight_decay)
        noisy = [each.released for each in pieces]
        size = self.scale.batch
        epochs = math.ceil(self.scale.warm * size / len(pieces))
        plan = _plan(range(len(pieces)), noisy, size, 0, epochs)
        rate = recipe.learning_rates[type(method)]
        for step in range(min(self.scale.warm, plan.steps)):
            rows = plan.rows(step)
            batch = self._batch([noisy[i] for i in rows])
            with computing(model.encoder):
                if kind == "words":
                    loss = _named(model(batch)[1], batch)
                else:
                    away = pool(model.states(batch), batch.text) - clear[rows]
                    loss = (away.square().sum(1) / clear[rows].square().sum(1)).mean()
            slower = 1 - step / self.scale.warm
            _update(optimizer, list(own.values()), loss, rate * slower, recipe.clip)
        learnt = {name: p.detach().clone() for name, p in own.items()}
        self._starts[kind, share] = learnt
        return learnt

    def _model(self, method: MethodConfig, seed: int) -> TextClassifier:
        torch.manual_seed(seed)
        loaded = backbones.load()
        model = TextClassifier(loaded, method, 2, vocabulary=len(self._places)).eval()
        if fast_bfloat16():
            to_bfloat16(model.encoder)
        return model

    def _batch(self, rows: Sequence[Encoded]) -> Batch:
        return collate(rows, self._tokenizer.pad_token_id or 0, self._places)

    @torch.no_grad()
    def _states(self, model: TextClassifier, rows: Sequence[Encoded]) -> Tensor:
        """Pooled: Float (rows, h)."""
        found = torch.empty(len(rows), model.head.in_features)
        by_length = sorted(range(len(rows)), key=lambda i: len(rows[i].ids))
        for start in range(0, len(rows), 64):
            places = by_length[start : start + 64]
            batch = self._batch([rows[i] for i in places])
            found[places] = pool(model.states(batch), batch.text)
        return found

    @torch.no_grad()
    def _accuracy(
        self, model: TextClassifier, sets: Sequence[Sequence[Encoded]], gold: Tensor
    ) -> float:
        right = [(model.head(self._states(model, rows)).argmax(1) == gold).float() for rows in sets]
        return float(torch.stack(right).mean())


def _plan(rows: range, encoded: Sequence[Encoded], size: int, seed: int, epochs: int = 1) -> Plan:
    lengths = [len(row.ids) for row in encoded]
    return Plan(
        rows,
        lengths,
        size=size,
        epochs=epochs,
        least_epochs=1,
        least_steps=0,
        seed=seed,
        warmup=Recipe().warmup,
    )


def _named(logits: Tensor | None, batch: Batch) -> Tensor:
    """Mean cross-entropy of naming the plain tokens of a batch; 0 where it has none."""
    if logits is None:
        return torch.zeros(())
    return F.cross_entropy(logits, batch.plain[batch.plain >= 0])


def _update(
    optimizer: torch.optim.Optimizer, own: list[Tensor], loss: Tensor, rate: float, clip: float
) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(own, clip)
    optimizer.step()
