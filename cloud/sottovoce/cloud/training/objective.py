"""What training minimises: the labels' cross-entropy, and that of naming the plain tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.precision import computing
from sottovoce.cloud.training.fit import Losses

__all__ = ["Labelled", "Objective"]


class Labelled(NamedTuple):
    """B examples and their labels, Int (B,)."""

    batch: Batch
    targets: Tensor

    def to(self, device: torch.device) -> Labelled:
        """The same on another device."""
        return Labelled(self.batch.to(device), self.targets.to(device))


@dataclass(frozen=True, slots=True)
class Objective:
    """Losses of labelled examples (RAPT v2, eq. 6, 8 and 9).

    Attributes:
        model: in evaluation mode, so without dropout.
        weight: of L_rec. It is a mean over an example's plain tokens, so the weight holds for any
            number of them.
    """

    model: TextClassifier
    weight: float = 0.0

    def __call__(self, examples: Labelled) -> Losses:
        """Each example's losses; no reconstruction where the batch has no plain tokens."""
        batch, targets = examples
        with computing(self.model.encoder):
            logits, named = self.model(batch)  # (B, C), (plain tokens, T)
            task = F.cross_entropy(logits, targets, reduction="none")
            if named is None:
                return Losses(task)
            plain = batch.plain >= 0  # (B, n)
            missed = F.cross_entropy(named, batch.plain[plain], reduction="none")
            by_place = missed.new_zeros(plain.shape).masked_scatter(plain, missed)
            return Losses(task, by_place.sum(1) / plain.sum(1).clamp_min(1), self.weight)
