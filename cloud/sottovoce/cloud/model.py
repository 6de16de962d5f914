"""The model an adapter is: a frozen backbone, LoRA in its blocks, a linear head.

Backbones of every family (encoder, decoder, encoder-decoder) are driven the
same way: hidden states of the text's sub-tokens, averaged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn

from sottovoce.cloud.data import Batch
from sottovoce.edge.errors import InvalidInput

__all__ = [
    "Lora",
    "ReconstructionHead",
    "TextClassifier",
    "adapt",
    "encoder_of",
    "lora_config",
    "pool",
    "targets",
]

_BLOCK = re.compile(r"\.\d+\.")


@dataclass(frozen=True, slots=True)
class Lora:
    """Rank and scale of the low-rank updates W + (alpha / rank) B A."""

    rank: int = 8
    alpha: int = 16
    dropout: float = 0.05
    feed_forward: bool = False


def encoder_of(model: Any) -> Any:
    """The part that reads text: the encoder of an encoder-decoder, else all."""
    return model.get_encoder() if model.config.is_encoder_decoder else model


def targets(model: nn.Module, feed_forward: bool) -> list[str]:
    """Names of the linear layers that get LoRA: those inside repeated blocks.

    Attention projections are the square-ish ones with attention in their path;
    families name them differently, but all keep "att" there (``attention``,
    ``self_attn``, ``SelfAttention``).
    """
    inside = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and _BLOCK.search(f".{name}")
    ]
    attention = [name for name in inside if "att" in name.lower()]
    chosen = inside if feed_forward or not attention else attention
    if not chosen:
        raise InvalidInput(
            "the backbone has no linear layers in its blocks",
            fix="use a BERT, T5, Qwen, Llama or Mistral style backbone",
            subject="backbone",
        )
    return chosen


def lora_config(lora: Lora, layers: list[str]) -> LoraConfig:
    """PEFT's configuration for LoRA on the linear layers named."""
    return LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=layers
    )


def adapt(model: Any, config: LoraConfig, name: str = "default") -> Any:
    """``model`` with LoRA in its blocks; everything else frozen."""
    return get_peft_model(model, config, adapter_name=name)


def pool(hidden: Tensor, text: Tensor) -> Tensor:
    """Mean over the text's sub-tokens: (B, n, h), (B, n) -> (B, h)."""
    return (hidden * text.unsqueeze(-1)).sum(1) / text.sum(1, keepdim=True)


class ReconstructionHead(nn.Module):
    """Two linear layers that name the plain token at a position.

    RAPT v2, eq. 5-6: p(k) = softmax(h W2^T W1^T), W2 (c, h), W1 (T, c); c is
    ``width``, T the number of plain tokens the job knows. Dropped after training.
    """

    def __init__(self, hidden: int, vocabulary: int, width: int = 96) -> None:
        super().__init__()
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w1 = nn.Linear(width, vocabulary, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """(positions, h) -> logits (positions, T)."""
        return self.w1(self.w2(hidden))  # type: ignore[no-any-return]


class TextClassifier(nn.Module):
    """Backbone with LoRA, linear head over ``labels`` classes, and during
    training with plain tokens the reconstruction head over ``vocabulary`` words."""

    def __init__(self, backbone: Any, lora: Lora, labels: int, vocabulary: int = 0) -> None:
        super().__init__()
        encoder = encoder_of(backbone)
        hidden = encoder.config.hidden_size
        self.encoder = adapt(encoder, lora_config(lora, targets(encoder, lora.feed_forward)))
        self.head = nn.Linear(hidden, labels)
        self.reconstruction = ReconstructionHead(hidden, vocabulary) if vocabulary else None

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Class logits (B, C), and (plain tokens, T) logits where there are any."""
        hidden = self.states(batch)  # (B, n, h)
        logits = self.head(pool(hidden, batch.text))  # (B, C)
        plain = batch.plain >= 0  # (B, n)
        if self.reconstruction is None or not bool(plain.any()):
            return logits, None
        return logits, self.reconstruction(hidden[plain])  # (plain tokens, T)

    def states(self, batch: Batch) -> Tensor:
        """Last hidden states: (B, n, h)."""
        found = self.encoder(input_ids=batch.ids, attention_mask=batch.attention)
        return found.last_hidden_state  # type: ignore[no-any-return]

    def train_adapter(self, on: bool) -> None:
        """Switches LoRA's dropout, and no other: the backbone's stays off."""
        for name, module in self.encoder.named_modules():
            if "lora_dropout" in name:
                module.train(on)

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Copies back what ``trained`` gave, all of it or a part."""
        trained = self.trained()
        for name, value in state.items():
            trained[name].copy_(value)
