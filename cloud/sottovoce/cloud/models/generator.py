"""The model in training that writes: a decoder, what the method adds to it, its output weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

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

Missed = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


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

        Logits are made for these positions alone, some at a time: all of them would take gigabytes.
        What a position costs depends on its own state only, so its gradient is made with it and
        kept, a state's size, in the logits' place. Output weights that are trained take a share of
        every position's, so there logits are made again in the backward pass.

        Args:
            states: Float (positions, h).
            targets: the tokens, Int (positions,).

        Returns:
            Float (positions,) and Bool (positions,).
        """
        part = self._again if self.output.weight.requires_grad else _alone(self._missed)
        parts = zip(torch.split(states, _ROWS), torch.split(targets, _ROWS), strict=True)
        losses, hits = zip(*(part(*each) for each in parts), strict=True)
        return torch.cat(losses), torch.cat(hits)

    def _again(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = checkpoint(
            self._missed, states, targets, use_reentrant=False, preserve_rng_state=False
        )
        return found

    def _missed(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self._decoder.logits(states)
        return F.cross_entropy(logits, targets, reduction="none"), logits.argmax(-1) == targets


def _alone(missed: Missed) -> Missed:
    """The same, where each loss depends on its own state and on nothing else that is trained."""

    def found(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses, hits = _WithGradients.apply(states, targets, missed)  # type: ignore[no-untyped-call]
        return losses, hits

    return found


class _WithGradients(torch.autograd.Function):
    """Makes each state's gradient together with its loss."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, targets: Tensor, missed: Missed) -> tuple[Tensor, Tensor]:
        learns = ctx.needs_input_grad[0]
        with torch.set_grad_enabled(learns):
            own = states.detach().requires_grad_(learns)
            losses, hits = missed(own, targets)
            if learns:
                ctx.save_for_backward(*torch.autograd.grad(losses.sum(), own))
        ctx.mark_non_differentiable(hits)
        return losses.detach(), hits

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return (gradients * upstream[0].unsqueeze(1)).to(gradients.dtype), None, None
