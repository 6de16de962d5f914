"""A job's examples, checked, split and encoded as the input of a training run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sottovoce.cloud.job import Example, TrainingOptions, check_labels
from sottovoce.cloud.models.batches import Batch, Encoded, collate, encode

__all__ = ["HELD_OUT", "Dataset", "split"]

HELD_OUT = 0.15


@dataclass(frozen=True)
class Dataset:
    """N examples as integers.

    Attributes:
        labels: in the order of the adapter's outputs.
        targets: Int (N,), indices into ``labels``.
        train, held: indices of the training examples and of the held-out examples.
        alone: each text without plain tokens.
        fronted: each text after its plain tokens; the same as ``alone`` without reconstruction.
        vocabulary: target of each plain token's word id.
        pad: the tokenizer's padding.
    """

    labels: tuple[str, ...]
    targets: Tensor
    train: list[int]
    held: list[int]
    alone: list[Encoded]
    fronted: list[Encoded]
    vocabulary: dict[int, int]
    pad: int

    @classmethod
    def of(
        cls,
        examples: Sequence[Example],
        options: TrainingOptions,
        tokenizer: Any,
        cue: tuple[int, ...] = (),
        labels: tuple[str, ...] | None = None,
    ) -> Self:
        """Check, split and encode; ``cue`` as in `encode`.

        Args:
            labels: all labels, including those without examples; by default the examples' labels.

        Raises:
            NotReady: see `check_labels`; not if ``labels`` is set.
        """
        labels = labels or check_labels(Counter(e.label for e in examples))
        index = {label: i for i, label in enumerate(labels)}
        targets = [index[e.label] for e in examples]
        texts = [e.text for e in examples]
        alone = encode(tokenizer, texts, cue=cue)
        fronted = alone
        if options.reconstruction:
            fronted = encode(tokenizer, texts, examples, cue)
        words = sorted({word for row in fronted for _, word in row.plain})
        return cls(
            labels,
            torch.tensor(targets),
            *split(targets, options.seed),
            alone,
            fronted,
            {word: i for i, word in enumerate(words)},
            tokenizer.pad_token_id or 0,
        )

    @property
    def overhead(self) -> float:
        """Return the sub-tokens that plain tokens add, as a share of the texts' sub-tokens."""
        without = sum(len(row.ids) for row in self.alone)
        return sum(len(row.ids) for row in self.fronted) / without - 1

    def batch(self, rows: Sequence[int], *, plain: bool = False, multiple: int = 1) -> Batch:
        """Return some examples, with or without plain tokens; ``multiple`` as in `collate`."""
        source = self.fronted if plain else self.alone
        return collate([source[i] for i in rows], self.pad, self.vocabulary, multiple)


def split(targets: Sequence[int], seed: int) -> tuple[list[int], list[int]]:
    """Return indices (train, held out), with the same share of every label held out.

    Labels with fewer than 3 examples stay in training whole.
    """
    random = np.random.default_rng([seed, 0])
    by_label: dict[int, list[int]] = {}
    for index, target in enumerate(targets):
        by_label.setdefault(target, []).append(index)
    held: set[int] = set()
    for target in sorted(by_label):
        members = by_label[target]
        count = max(1, round(HELD_OUT * len(members))) if len(members) >= 3 else 0
        held.update(random.choice(members, count, replace=False).tolist())
    return [i for i in range(len(targets)) if i not in held], sorted(held)
