"""What training to write minimises: the outputs' cross-entropy, and that of naming plain tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.generator import TextGenerator
from sottovoce.cloud.models.precision import computing
from sottovoce.cloud.training.fit import Losses
from sottovoce.cloud.training.generation_dataset import WrittenBatch

__all__ = ["GenerationObjective"]


@dataclass(frozen=True, slots=True)
class GenerationObjective:
    """Losses of examples to be written (RAPT v2, eq. 6, 8 and 9).

    Attributes:
        model: in evaluation mode, so without dropout.
        weight: of L_rec, a mean over an example's plain tokens.
    """

    model: TextGenerator
    weight: float = 0.0

    def __call__(self, batch: WrittenBatch) -> Losses:
        """Each example's losses, means over its own tokens."""
        losses, _, reconstruction = self.missed(batch)
        return Losses(losses, reconstruction, self.weight if reconstruction is not None else 0.0)

    def missed(self, batch: WrittenBatch) -> tuple[Tensor, Tensor, Tensor | None]:
        """Loss of each example's output, share of its tokens that were the likeliest, and loss of
        its plain tokens where there are any: Float (B,) each."""
        written, plain = batch.targets >= 0, batch.plain >= 0  # (B, n)
        with computing(self.model.encoder):
            states = self.model.states(batch.ids, batch.attention)  # (B, n, h)
            losses, hits = self.model.missed(states[written], batch.targets[written])
            head, named = self.model.reconstruction, None
            if head is not None and bool(plain.any()):
                named = F.cross_entropy(
                    head(states[plain].float()), batch.plain[plain], reduction="none"
                )
        reconstruction = None if named is None else _means(named, plain)
        return _means(losses, written), _means(hits.float(), written), reconstruction


def _means(values: Tensor, places: Tensor) -> Tensor:
    """Mean a row: (true places,), Bool (B, n) -> (B,)."""
    spread = torch.zeros(places.shape, dtype=values.dtype, device=values.device)
    return spread.masked_scatter(places, values).sum(1) / places.sum(1).clamp_min(1)
