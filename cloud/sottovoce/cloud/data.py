"""Examples as a job holds them, checked, split and turned into token ids.

Kept apart from the training loop so that the loop sees integers only, and so
that a job that cannot train is refused before any model is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.noise_aware import WordPlaces
from sottovoce.edge.errors import NotReady

__all__ = [
    "MAX_TOKENS",
    "MIN_EXAMPLES",
    "SUBTOKENS",
    "Batch",
    "Dataset",
    "Encoded",
    "Example",
    "check_labels",
    "collate",
    "encode",
    "split",
]

MIN_EXAMPLES = 8
MAX_TOKENS = 256  # longer released texts are cut; cost grows with the square
SUBTOKENS = 2  # room for each plain token in front
HELD_OUT = 0.15
IGNORE = -100
NO_WORD = -1


@dataclass(frozen=True, slots=True)
class Example:
    """One released text with its label; plain tokens only for reconstruction."""

    text: str
    label: str
    plain_tokens: tuple[str, ...] = ()
    plain_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """One sequence of n sub-tokens.

    ``text`` marks the sub-tokens of the released text (not plain tokens, not
    special ones); ``plain`` holds (position, word id) of every plain token;
    ``words`` is for the noise-aware input, see `WordPlaces`, empty without.
    """

    ids: tuple[int, ...]
    text: tuple[bool, ...]
    plain: tuple[tuple[int, int], ...] = ()
    words: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """B sequences padded to length n.

    ids Int (B, n), attention Int (B, n), text Float (B, n), plain Int (B, n):
    the reconstruction target at a plain token's first sub-token, -100 elsewhere;
    words Int (B, n): the listed word a sub-token belongs to, -1 for none.
    """

    ids: Tensor
    attention: Tensor
    text: Tensor
    plain: Tensor
    words: Tensor

    def to(self, device: torch.device) -> Self:
        """The same batch on another device."""
        return type(self)(*(getattr(self, f.name).to(device) for f in fields(self)))


@dataclass(frozen=True)
class Dataset:
    """N examples as integers.

    Attributes:
        labels: in the order of the adapter's outputs.
        targets: Int (N,), places in ``labels``.
        train, held: places of the examples to learn from, and of those held out.
        alone: each text by itself.
        fronted: each with its plain tokens in front, the same as ``alone`` without reconstruction.
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
        places: WordPlaces | None = None,
    ) -> Self:
        """Checks, splits and encodes; ``cue`` and ``places`` as in `encode`.

        Raises:
            NotReady: see `check_labels`.
        """
        labels = check_labels(Counter(e.label for e in examples))
        index = {label: i for i, label in enumerate(labels)}
        targets = [index[e.label] for e in examples]
        texts = [e.text for e in examples]
        alone = encode(tokenizer, texts, cue=cue, places=places)
        fronted = alone
        if options.reconstruction:
            fronted = encode(tokenizer, texts, examples, cue, places)
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
        """Sub-tokens that plain tokens add, as a share of those without."""
        without = sum(len(row.ids) for row in self.alone)
        return sum(len(row.ids) for row in self.fronted) / without - 1

    def batch(self, rows: Sequence[int], *, plain: bool = False) -> Batch:
        """Some examples, with plain tokens in front or alone."""
        source = self.fronted if plain else self.alone
        return collate([source[i] for i in rows], self.pad, self.vocabulary)


def check_labels(counts: Counter[str], most: int = 1_000) -> tuple[str, ...]:
    """The labels in the order of the adapter's outputs.

    Raises:
        NotReady: too few examples, one label only, too many, or a label seen only once;
            says which and how to mend it.
    """
    total = counts.total()
    if total < MIN_EXAMPLES:
        raise NotReady(
            f"the job holds {total} examples, training needs at least {MIN_EXAMPLES}",
            fix="add examples and customise again",
            subject="examples",
        )
    labels = tuple(sorted(counts))
    if len(labels) < 2:
        raise NotReady(
            f"every example has the label {labels[0]!r}",
            fix="give examples of at least 2 labels",
            subject="label",
        )
    if len(labels) > most:
        raise NotReady(
            f"the examples have {len(labels)} labels, at most {most} are allowed",
            fix="check that the label column holds classes, not texts",
            subject="label",
        )
    once = [label for label in labels if counts[label] < 2]
    if once:
        shown = ", ".join(repr(label) for label in once[:5])
        raise NotReady(
            f"{len(once)} label(s) seen only once: {shown}",
            fix="give at least 2 examples of each label, or drop it",
            subject="label",
        )
    return labels


def split(targets: Sequence[int], seed: int) -> tuple[list[int], list[int]]:
    """Indices (train, held out), the same share of every label held out.

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


def encode(
    tokenizer: Any,
    texts: Sequence[str],
    plain: Sequence[Example] | None = None,
    cue: tuple[int, ...] = (),
    places: WordPlaces | None = None,
) -> list[Encoded]:
    """Sub-tokens of each text, with its plain tokens in front where given.

    Args:
        tokenizer: a fast tokenizer (character offsets are needed).
        texts: released texts.
        plain: for each text the example whose plain tokens go in front
            (RAPT v2, section III-B2).
        cue: token ids to put after each text. Where there are any, the last of them stands
            for the text: it alone is marked in `Encoded.text`.
        places: finds the listed words, for the noise-aware input.
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
    words = places(whole, found["offset_mapping"]) if places else [()] * len(whole)
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
        encoded.append(Encoded(ids, text, tuple(positions), words[row]))
    return encoded


def collate(rows: Sequence[Encoded], pad: int, vocabulary: dict[int, int] | None = None) -> Batch:
    """Pads sequences to one batch; ``vocabulary`` maps word ids to targets."""
    width = max(len(row.ids) for row in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    attention = np.zeros((len(rows), width), dtype=np.int64)
    text = np.zeros((len(rows), width), dtype=np.float32)
    plain = np.full((len(rows), width), IGNORE, dtype=np.int64)
    words = np.full((len(rows), width), NO_WORD, dtype=np.int64)
    for i, row in enumerate(rows):
        n = len(row.ids)
        ids[i, :n] = row.ids
        attention[i, :n] = 1
        # A text of nothing the tokenizer knows still needs a mean to pool.
        text[i, :n] = row.text if any(row.text) else 1.0
        words[i, : len(row.words)] = row.words
        for position, number in row.plain if vocabulary else ():
            plain[i, position] = vocabulary[number]  # type: ignore[index]
    return Batch(*(torch.from_numpy(a) for a in (ids, attention, text, plain, words)))
