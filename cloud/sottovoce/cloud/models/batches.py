"""A job's examples, checked, split and turned into token ids.

The training loop sees only integers. A job that cannot train is refused before a model is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sottovoce.cloud.job import Example, TrainingOptions, check_labels
from sottovoce.core.bundle.encoder import MAX_TOKENS

SUBTOKENS = 2  # room for each plain token in front
IGNORE = -100


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sequence of n sub-tokens.

    ``text`` marks the sub-tokens of the released text, not plain or special tokens. ``plain``
    holds (position, word id) of every plain token.
    """

    ids: tuple[int, ...]
    text: tuple[bool, ...]
    plain: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """B sequences padded to length n.

    ids Int (B, n), attention Int (B, n), text Float (B, n), plain Int (B, n): the reconstruction
    target at a plain token's first sub-token, -100 elsewhere.
    """

    ids: Tensor
    attention: Tensor
    text: Tensor
    plain: Tensor

    def to(self, device: torch.device) -> Self:
        return type(self)(*(getattr(self, f.name).to(device) for f in fields(self)))


def encode(
    tokenizer: Any,
    texts: Sequence[str],
    plain: Sequence[Example] | None = None,
    cue: tuple[int, ...] = (),
) -> list[Encoded]:
    """Return the sub-tokens of each text, after its plain tokens if there are any.

    Args:
        tokenizer: a fast tokenizer (character offsets are needed).
        plain: for each text the example with the plain tokens for the front
            (RAPT v2, section III-B2).
        cue: token ids to append to each text. The last of these ids then stands for the text:
            only its position is marked in `Encoded.text`.
    """
    fronts = [" ".join(e.plain_tokens) + " " if e.plain_tokens else "" for e in plain or ()]
    fronts = fronts or [""] * len(texts)
    room = max((len(e.plain_tokens) for e in plain or ()), default=0)
    whole = [front + text for front, text in zip(fronts, texts, strict=True)]
    found = tokenizer(
        whole,
        truncation=True,
        max_length=MAX_TOKENS + SUBTOKENS * room,
        return_offsets_mapping=True,
    )
    encoded = []
    for row, (front, offsets) in enumerate(zip(fronts, found["offset_mapping"], strict=True)):
        start = len(front)
        # Special tokens have the empty offset (0, 0).
        text = tuple(e > start and e > s for s, e in offsets)
        positions = []
        at = 0
        for word, number in (
            zip(plain[row].plain_tokens, plain[row].plain_token_ids, strict=True) if plain else ()
        ):
            position = found.char_to_token(row, at)
            if position is not None:
                positions.append((position, number))
            at += len(word) + 1
        if cue:
            text = (*(False for _ in (*text, *cue[1:])), True)
        ids = (*found["input_ids"][row], *cue)
        encoded.append(Encoded(ids, text, tuple(positions)))
    return encoded


def padded(length: int, multiple: int) -> int:
    """Return the smallest number of at least ``length`` that ``multiple`` divides."""
    return -(-length // multiple) * multiple


def collate(
    rows: Sequence[Encoded],
    pad: int,
    vocabulary: dict[int, int] | None = None,
    multiple: int = 1,
) -> Batch:
    """Return the sequences as one batch, padded to a width that ``multiple`` divides.

    ``vocabulary`` maps word ids to targets.
    """
    width = padded(max(len(row.ids) for row in rows), multiple)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    attention = np.zeros((len(rows), width), dtype=np.int64)
    text = np.zeros((len(rows), width), dtype=np.float32)
    plain = np.full((len(rows), width), IGNORE, dtype=np.int64)
    for i, row in enumerate(rows):
        n = len(row.ids)
        ids[i, :n] = row.ids
        attention[i, :n] = 1
        # A text without known tokens still needs a mean to pool.
        text[i, :n] = row.text if any(row.text) else 1.0
        for position, number in row.plain if vocabulary else ():
            plain[i, position] = vocabulary[number]  # type: ignore[index]
    return Batch(*(torch.from_numpy(a) for a in (ids, attention, text, plain)))


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
        """Return the sub-tokens that plain tokens add, as a share of the texts'."""
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
