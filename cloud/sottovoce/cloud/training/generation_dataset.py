"""A job's inputs and outputs, as what a decoder reads and what it must write.

    plain tokens   conversation up to the answer   answer, end
    |--------------- read ------------------------|----------|
                                                  |-- loss --|

Only the answer is learnt: the input is not the tenant's to imitate, and most of its tokens are the
same in every example. What is too long loses the end of its input, never its output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final, Self

import numpy as np
import torch
from torch import Tensor

from sottovoce.cloud.job import Example, TrainingOptions, check_number
from sottovoce.cloud.models.chat import Chat, Turn
from sottovoce.cloud.models.decoder import Decoder
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.training.dataset import split

__all__ = ["IGNORE", "LONGEST", "GenerationDataset", "Written", "WrittenBatch", "encode"]

LONGEST: Final = 1024
"""Tokens of an example: memory grows with them, whatever the decoder could read."""

IGNORE: Final = -100


@dataclass(frozen=True, slots=True)
class Written:
    """One example of n tokens.

    Attributes:
        ids: all it reads.
        targets: for each of them the token that follows, where that is the answer's or its end;
            `IGNORE` elsewhere.
        plain: (position, word id) of every plain token: where its last sub-token is, since a
            decoder sees no further.
    """

    ids: tuple[int, ...]
    targets: tuple[int, ...]
    plain: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """B examples padded to length n: Int (B, n) each; see `Written`. ``plain`` holds targets of the
    reconstruction head, `IGNORE` elsewhere."""

    ids: Tensor
    attention: Tensor
    targets: Tensor
    plain: Tensor

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return type(self)(*(getattr(self, f.name).to(device) for f in fields(self)))


@dataclass(frozen=True)
class GenerationDataset:
    """N examples as integers; see `sottovoce.cloud.training.dataset.Dataset`.

    Attributes:
        train, held: places of the examples to learn from, and of those held out.
        alone: each example by itself.
        fronted: each with its plain tokens in front, the same as ``alone`` without reconstruction.
        vocabulary: target of each plain token's word id.
    """

    train: list[int]
    held: list[int]
    alone: list[Written]
    fronted: list[Written]
    vocabulary: dict[int, int]

    @classmethod
    def of(cls, examples: Sequence[Example], options: TrainingOptions, decoder: Decoder) -> Self:
        """Checks, splits and encodes.

        Raises:
            NotReady: too few examples.
            InvalidInput: the decoder's template refuses a single turn.
        """
        check_number(len(examples))
        most = min(LONGEST, decoder.context - from_options(options).front)
        alone = [encode(decoder.chat, e, most) for e in examples]
        fronted = alone
        if options.reconstruction:
            fronted = [encode(decoder.chat, e, most, plain=True) for e in examples]
        words = sorted({word for row in fronted for _, word in row.plain})
        return cls(
            *split([0] * len(examples), options.seed),
            alone,
            fronted,
            {word: i for i, word in enumerate(words)},
        )

    @property
    def overhead(self) -> float:
        """Tokens that plain tokens add, as a share of those without."""
        without = sum(len(row.ids) for row in self.alone)
        return sum(len(row.ids) for row in self.fronted) / without - 1

    def batch(self, rows: Sequence[int], *, plain: bool = False) -> WrittenBatch:
        """Some examples, with plain tokens in front or alone."""
        some = [(self.fronted if plain else self.alone)[i] for i in rows]
        shape = len(some), max(len(row.ids) for row in some)
        ids, attention = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        targets, words = np.full(shape, IGNORE), np.full(shape, IGNORE)
        for i, row in enumerate(some):
            n = len(row.ids)
            ids[i, :n], attention[i, :n], targets[i, :n] = row.ids, 1, row.targets
            for position, number in row.plain:
                words[i, position] = self.vocabulary[number]
        return WrittenBatch(*map(torch.from_numpy, (ids, attention, targets, words)))


def encode(chat: Chat, example: Example, most: int, *, plain: bool = False) -> Written:
    """One example in at most ``most`` tokens.

    Args:
        chat: lays it out.
        example: input, output and plain tokens.
        most: at least a few more than an empty conversation takes.
        plain: put the plain tokens in front (RAPT v2, section III-B2).

    Raises:
        InvalidInput: the template refuses a single turn.
    """
    front, places = _fronted(chat, example) if plain else ([], [])
    answer = chat.answer(example.output)
    room = most - len(front) + 1  # the last token is only written
    prompt = _fitting(chat, example.text, room - len(answer))
    # An output that fits nowhere is cut like the text it would be the beginning of: with no end.
    answer = answer[: room - len(prompt)]
    at = int(prompt[0] == chat.tokenizer.bos_token_id)
    ids = [*prompt[:at], *front, *prompt[at:], *answer]
    targets = [IGNORE] * (len(front) + len(prompt) - 1) + answer
    return Written(
        tuple(ids[:-1]),
        tuple(targets),
        tuple((at + p, w) for p, w in zip(places, example.plain_token_ids, strict=plain)),
    )


def _fronted(chat: Chat, example: Example) -> tuple[list[int], list[int]]:
    """Ids of the plain tokens as a line of words, and the place of each one's last."""
    ids: list[int] = []
    places = []
    for word in example.plain_tokens:
        ids += chat.tokenizer(f" {word}" if ids else word, add_special_tokens=False)["input_ids"]
        places.append(len(ids) - 1)
    return [*ids, *chat.tokenizer("\n", add_special_tokens=False)["input_ids"]], places


def _fitting(chat: Chat, text: str, most: int) -> list[int]:
    """The prompt for ``text``, or for as much of its beginning as fits."""
    prompt = chat.prompt([Turn("user", text)])
    while len(prompt) > most and text:
        pieces = chat.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ends = [end for _, end in pieces["offset_mapping"]]
        keep = len(ends) - (len(prompt) - most)
        # What is shorter in characters need not be in tokens: at least one character goes.
        text = text[: min(ends[keep - 1], len(text) - 1)] if keep > 0 else ""
        prompt = chat.prompt([Turn("user", text)])
    return prompt
