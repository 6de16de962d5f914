"""How the next token of each row is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sottovoce.core.rpc.limits import NEW_TOKENS

__all__ = ["Draw", "Sampling", "choose"]

_HEAD = 256
"""Likeliest tokens that are looked at first: all others are sorted only where these do not do."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a caller chose.

    Attributes:
        max_tokens: written at most.
        temperature: 0 for the likeliest token always.
        top_p: probability of the nucleus that is drawn from (Holtzman et al.).
        seed: of all draws; None for a random one.
    """

    max_tokens: int = NEW_TOKENS
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None


class Draw:
    """The draws of one row, which no other row has any influence on."""

    def __init__(self, sampling: Sampling) -> None:
        self.temperature, self._top_p = sampling.temperature, sampling.top_p
        self._random = torch.Generator()
        if sampling.seed is None:
            self._random.seed()
        else:
            self._random.manual_seed(sampling.seed)

    def token(self, logits: Tensor) -> int:
        """A token id, by logits Float32 (tokens,) on the CPU, at any temperature above 0."""
        # In doubles, and from 0 down: the coldest temperature there is makes nothing infinite.
        probabilities = torch.softmax((logits.double() - logits.max()) / self.temperature, 0)
        values, ids = self._nucleus(probabilities)
        return int(ids[torch.multinomial(values, 1, generator=self._random)])

    def _nucleus(self, probabilities: Tensor) -> tuple[Tensor, Tensor]:
        everything = len(probabilities)
        if self._top_p >= 1:
            return probabilities, torch.arange(everything)
        for count in (min(_HEAD, everything), everything):
            values, ids = probabilities.topk(count)
            before = values.cumsum(0) - values
            inside = max(1, int((before < self._top_p).sum()))
            if inside < count:
                break
        return values[:inside], ids[:inside]


def choose(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """The next token of every row.

    Args:
        logits: Float32 (B, tokens), all finite.
        draws: B of them.
    """
    likeliest: list[int] = logits.argmax(1).tolist()
    return [
        draw.token(logits[place].cpu()) if draw.temperature else likeliest[place]
        for place, draw in enumerate(draws)
    ]
