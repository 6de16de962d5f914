"""The model in training that writes: a decoder, what the method adds to it, its output weights."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.utils.checkpoint import checkpoint

from sottovoce.cloud.models.adapted import AdaptedModel
from sottovoce.cloud.models.decoder import Decoder
from sottovoce.cloud.models.methods import Method

__all__ = ["TextGenerator"]

_ROWS = 128
"""Positions whose logits are in memory at once: with 262,144 tokens 134 MB."""


class TextGenerator(AdaptedModel):
    """A decoder and what training adds to it.

    Full fine-tuning trains the stack; output weights change with it where they are the input
    embeddings, and stay as they are where they are not.

    Args:
        decoder: freshly loaded; the method is built into it, so it is spent.
        method: what is trained.
        vocabulary, width: of the reconstruction head, see `AdaptedModel`.
    """

    task: ClassVar[str] = "generation"

    def __init__(
        self, decoder: Decoder, method: Method, *, vocabulary: int = 0, width: int = 96
    ) -> None:
        super().__init__(decoder.stack, method, vocabulary, width)
        self.output = decoder.model.get_output_embeddings()
        self._decoder = decoder

    def states(self, ids: Tensor, attention: Tensor) -> Tensor:
        """Last hidden states: Int (B, n), Int (B, n) -> Float (B, n, h)."""
        return self.adapted(ids, attention)  # type: ignore[no-any-return]

    def missed(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the tokens that follow, and whether each was the likeliest.

        Logits are made for these positions alone, some at a time, and again in the backward pass:
        all of them would take gigabytes.

        Args:
            states: Float (positions, h).
            targets: the tokens, Int (positions,).

        Returns:
            Float (positions,) and Bool (positions,).
        """
        parts = [
            checkpoint(self._missed, some, wanted, use_reentrant=False, preserve_rng_state=False)
            for some, wanted in zip(
                torch.split(states, _ROWS), torch.split(targets, _ROWS), strict=True
            )
        ]
        losses, hits = zip(*parts, strict=True)
        return torch.cat(losses), torch.cat(hits)

    def _missed(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self._decoder.logits(states)
        return F.cross_entropy(logits, targets, reduction="none"), logits.argmax(-1) == targets
