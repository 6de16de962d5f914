"""Cuts a backbone in two: blocks that stay as they are, and the last few, which are adapted.

Why it is here: whatever is trained in the last blocks only never changes the states that enter
them. Computed once for a data set, those states serve every run on it, and a step costs a fraction
of a full one. The product adapts all blocks; what the shortcut costs is in docs/utility.md.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from sottovoce.cloud.models import virtual_tokens
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.core.errors import InvalidInput

__all__ = ["Trunk", "cut"]


class Trunk:
    """The lower blocks, frozen."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder.requires_grad_(False).eval()

    @torch.no_grad()
    def __call__(self, inputs: Tensor, attention: Tensor) -> Tensor:
        """The states that enter the tail: Float (B, n, h).

        Args:
            inputs: token ids, Int (B, n), or input embeddings, Float (B, n, h).
            attention: 1 at tokens, 0 at padding, Int (B, n); padding on the right.
        """
        return virtual_tokens.run(self.encoder, inputs, attention)

    def __deepcopy__(self, _: Any) -> Self:
        """Itself, as nothing changes it: copies of a tail share their trunk."""
        return self


class _Entrance(nn.Module):
    """In the place of a tail's input layer: states pass, token ids go through the trunk first."""

    def __init__(self, trunk: Trunk, first: nn.Module) -> None:
        super().__init__()
        # Held in a tuple: the trunk is no part of the tail, so nothing may be built into it.
        self._held = (trunk, first)

    @property
    def word_embeddings(self) -> Any:
        """What `get_input_embeddings` of the model finds."""
        return self._held[0].encoder.embeddings.word_embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        **_: Any,
    ) -> Tensor:
        if inputs_embeds is not None:
            return inputs_embeds
        assert input_ids is not None
        trunk, first = self._held
        states = trunk(input_ids, torch.ones_like(input_ids))
        return states.to(next(first.parameters()).dtype)


def cut(backbone: LoadedBackbone, blocks: int) -> tuple[Trunk, LoadedBackbone]:
    """The trunk, and a backbone of the last ``blocks`` blocks that takes its states as embeddings.

    The two together compute what the whole does: for token ids without padding the tail asks the
    trunk by itself. ``backbone`` is spent.

    Args:
        backbone: an encoder of the BERT family, freshly loaded.
        blocks: from 1 to one fewer than it has.

    Raises:
        InvalidInput: another family, or not as many blocks.
    """
    tail = backbone.model
    layers = getattr(getattr(tail, "encoder", None), "layer", None)
    if layers is None or not hasattr(tail, "embeddings") or not 0 < blocks < len(layers):
        raise InvalidInput(
            "this backbone cannot be cut there",
            fix="take an encoder of the BERT family, and fewer blocks than it has",
            subject="blocks",
        )
    first = len(layers) - blocks
    lower = deepcopy(tail)
    lower.encoder.layer = lower.encoder.layer[:first]
    lower.config.num_hidden_layers = first
    trunk = Trunk(lower)
    tail.encoder.layer = layers[first:]
    tail.config.num_hidden_layers = blocks
    for place, layer in enumerate(tail.encoder.layer):
        for module in layer.modules():  # where a cache of keys and values looks
            if hasattr(module, "layer_idx"):
                module.layer_idx = place
    tail.embeddings = _Entrance(trunk, layers[first])
    return trunk, replace(backbone, model=tail)
