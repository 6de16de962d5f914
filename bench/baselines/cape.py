"""CAPE (Plant et al., 2021): a map of the embedding that hides an author's attributes.

The map is trained with a head for the task, and against adversaries that guess the attributes.
Scaling and noise then follow DPNR. This implementation follows the paper, over a frozen backbone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.attacks.interface import Floats

__all__ = ["LAMBDA", "Cape"]

LAMBDA: Final = 1.5
"""Weight of the adversaries, as in RAPT."""
_HIDDEN: Final = 64
_EPOCHS: Final = 30
_BATCH: Final = 128
_RATE: Final = 1e-3

Labels = NDArray[np.int64]


class _Reversed(torch.autograd.Function):
    """Gradient reversal: identity forwards; backwards, the gradient times minus lambda."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: object, *slopes: Tensor) -> Tensor:
        return -LAMBDA * slopes[0]


def _head(width: int, classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, classes))


class Cape(nn.Module):
    """A linear map of embeddings that keeps the task and removes the authors' attributes."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.map = nn.Linear(width, width)
        nn.init.eye_(self.map.weight)

    @classmethod
    def fit(
        cls,
        task: tuple[Floats, Labels],
        authored: Floats,
        attributes: Mapping[str, Labels],
        epsilon: float,
        seed: int = 0,
    ) -> Cape:
        """Train map, task head and adversaries together, with the noise.

        Args:
            task: embeddings Floats2d (n, width) and their labels.
            authored: embeddings of texts by known authors, Floats2d (m, width).
            attributes: Ints1d (m,) each: the authors' attributes, which the map must hide.
            epsilon: privacy budget of each entry.
            seed: seed of the training.
        """
        torch.manual_seed(seed)
        random = np.random.default_rng(seed)
        width = authored.shape[1]
        found = cls(width, epsilon)
        teller = _head(width, int(task[1].max()) + 1)
        guessers = {name: _head(width, int(of.max()) + 1) for name, of in attributes.items()}
        learners = nn.ModuleList([found, teller, *guessers.values()])
        optimizer = torch.optim.Adam(learners.parameters(), lr=_RATE)
        for _ in range(_EPOCHS):
            parts = max(1, len(task[1]) // _BATCH)
            mine = np.array_split(random.permutation(len(task[1])), parts)
            theirs = np.array_split(random.permutation(len(authored)), parts)
            for some, others in zip(mine, theirs, strict=True):
                told = teller(found._loud(torch.from_numpy(task[0][some])))
                loss = nn.functional.cross_entropy(told, torch.from_numpy(task[1][some]))
                loud = found._loud(torch.from_numpy(authored[others]))
                seen = _Reversed.apply(loud)  # type: ignore[no-untyped-call]
                for name, guesser in guessers.items():
                    wanted = torch.from_numpy(attributes[name][others])
                    loss = loss + nn.functional.cross_entropy(guesser(seen), wanted)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        return found

    def _loud(self, rows: Tensor) -> Tensor:
        mapped = self.map(rows)
        low, high = mapped.amin(1, keepdim=True), mapped.amax(1, keepdim=True)
        scaled: Tensor = (mapped - low) / (high - low).clamp_min(1e-9)
        noise: Tensor = torch.distributions.Laplace(0.0, 1 / self.epsilon).sample(scaled.shape)
        return scaled + noise

    @torch.no_grad()
    def mapped(self, rows: Floats) -> Floats:
        """Return the embeddings before noise: Floats2d (n, width)."""
        found: Floats = self.map(torch.from_numpy(rows)).numpy()
        return found
