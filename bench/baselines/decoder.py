"""An attacker on embeddings of sentences: a network that names the words of a text.

DPNR and CAPE send one noisy vector for a text, so no attacker on single words applies. The attacker
trains a network from vectors to words, on self-made releases. The attacker is given the number of
different words to name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.random import Generator
from torch import nn

from bench.attacks.interface import Floats
from bench.attacks.measures import Tally

__all__ = ["Bags", "Decoder"]

Bags = Sequence[frozenset[str]]
"""The words of each text."""

_HIDDEN: Final = 512
_EPOCHS: Final = 16
_BATCH: Final = 64
_RATE: Final = 2e-3
_LEAST: Final = 2
"""Texts with a word, for the attacker to learn about it."""


@dataclass(frozen=True)
class Decoder:
    """A trained network, and the words that it names."""

    network: nn.Module
    words: tuple[str, ...]

    @classmethod
    def fit(cls, release: Callable[[Generator], Floats], bags: Bags) -> Decoder:
        """Train on fresh releases in each epoch.

        Args:
            release: returns a vector for each text, Floats2d (n, width).
            bags: the words behind each vector.
        """
        torch.manual_seed(0)
        random = np.random.default_rng(0)
        met = Counter(word for bag in bags for word in bag)
        words = tuple(word for word, times in met.most_common() if times >= _LEAST)
        number = {word: place for place, word in enumerate(words)}
        rows = release(random)
        centre = torch.tensor(rows.mean(axis=0)), torch.tensor(rows.std(axis=0) + 1e-6)
        out = nn.Linear(_HIDDEN, len(words))
        share = torch.tensor([met[word] for word in words], dtype=torch.float32) / len(bags)
        out.bias.data = torch.logit(share.clamp(max=0.99))
        network = nn.Sequential(
            _Scaled(*centre), nn.Linear(rows.shape[1], _HIDDEN), nn.ReLU(), nn.Dropout(0.2), out
        )
        optimizer = torch.optim.AdamW(network.parameters(), lr=_RATE, weight_decay=0.01)
        for _ in range(_EPOCHS):
            rows = release(random)
            order = random.permutation(len(rows))
            for some in np.array_split(order, max(1, len(rows) // _BATCH)):
                wanted = torch.zeros(len(some), len(words))
                for row, text in enumerate(some.tolist()):
                    wanted[row, [number[word] for word in bags[text] if word in number]] = 1
                scores = network(torch.tensor(rows[some]))
                loss = nn.functional.binary_cross_entropy_with_logits(scores, wanted)
                optimizer.zero_grad()
                (loss * len(words)).backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
        return cls(network.eval(), words)

    @torch.no_grad()
    def tally(self, rows: Floats, bags: Bags) -> Tally:
        """Name for each text as many words as it has, and count the right words."""
        scores = self.network(torch.tensor(rows))
        right = []
        for row, bag in zip(scores, bags, strict=True):
            named = row.topk(min(len(bag), len(self.words))).indices.tolist()
            right.append(sum(self.words[place] in bag for place in named))
        return Tally(np.array(right), np.array([len(bag) for bag in bags]))


class _Scaled(nn.Module):
    def __init__(self, mean: torch.Tensor, spread: torch.Tensor) -> None:
        super().__init__()
        self.mean, self.spread = mean, spread

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows - self.mean) / self.spread
