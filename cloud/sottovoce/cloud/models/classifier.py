"""The model in training: a backbone, what the method adds to it, a linear head.

Backbones of every family (encoder, decoder, encoder-decoder) are driven the
same way: hidden states of the text's sub-tokens, averaged. Where the words of
the labels are scored, the average is over the one token that follows the text.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    prepare_model_for_kbit_training,
)
from torch import Tensor, nn

from sottovoce.cloud.models import virtual_tokens
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.methods import Full, Lora, MethodConfig, Prefix, Prompt
from sottovoce.cloud.models.noise_aware import NoiseTable
from sottovoce.core.errors import InvalidInput

__all__ = [
    "ReconstructionHead",
    "TextClassifier",
    "adapt",
    "encoder_of",
    "lora_config",
    "pool",
    "targets",
]

_BLOCK = re.compile(r"\.\d+\.")


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
    return LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=layers)


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
    """A backbone and what training adds to it.

    Args:
        backbone: freshly loaded; the method is built into its model, so it is spent.
        method: what is trained besides the heads.
        labels: number of classes.
        vocabulary: plain tokens the reconstruction head can name; 0 for no head.
        width: of the reconstruction head.
        words: output embeddings of the labels' words, Float (labels, h): they take the place
            of a trained head.
        noise: how to read the words received, for the noise-aware input.
    """

    def __init__(
        self,
        backbone: LoadedBackbone,
        method: MethodConfig,
        labels: int,
        *,
        vocabulary: int = 0,
        width: int = 96,
        words: Tensor | None = None,
        noise: NoiseTable | None = None,
    ) -> None:
        super().__init__()
        encoder = encoder_of(backbone.model)
        hidden = encoder.config.hidden_size
        self.method = method
        self.noise = noise
        self.encoder = encoder.requires_grad_(isinstance(method, Full))
        self.virtual: nn.Parameter | None = None
        match method:
            case Lora():
                layers = targets(encoder, method.feed_forward)
                if method.quantized:  # norms and embeddings in float32 (QLoRA)
                    prepare_model_for_kbit_training(encoder, use_gradient_checkpointing=False)
                self.encoder = adapt(encoder, lora_config(method, layers))
            case Prompt():
                self.virtual = nn.Parameter(virtual_tokens.draw_prompt(encoder, method.tokens))
            case Prefix():
                self.virtual = nn.Parameter(virtual_tokens.draw_prefix(encoder, method.tokens))
        self.head = nn.Linear(hidden, labels, bias=words is None)
        if words is not None:
            self.head.weight = nn.Parameter(words, requires_grad=False)
        self.reconstruction = ReconstructionHead(hidden, vocabulary, width) if vocabulary else None

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Class logits (B, C), and (plain tokens, T) logits where there are any."""
        hidden = self.states(batch)  # (B, n, h)
        logits = self.head(pool(hidden, batch.text))  # (B, C)
        plain = batch.plain >= 0  # (B, n)
        if self.reconstruction is None or not bool(plain.any()):
            return logits, None
        return logits, self.reconstruction(hidden[plain])  # (plain tokens, T)

    def states(self, batch: Batch) -> Tensor:
        """Last hidden states: (B, n, h), in float32."""
        inputs = batch.ids
        if self.noise is not None:
            embeddings = self.encoder.get_input_embeddings()(batch.ids)
            inputs = self.noise.mix(embeddings, batch.words)
        rows = [self.virtual] * len(batch.ids)
        found = virtual_tokens.run(
            self.encoder,
            inputs,
            batch.attention,
            prompts=rows if isinstance(self.method, Prompt) else (),
            prefixes=rows if isinstance(self.method, Prefix) else (),
        )
        return found.float()

    def trained(self) -> dict[str, Tensor]:
        """The parameters that training changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def adapter(self) -> dict[str, Tensor]:
        """The method's own parameters by the names their files use: PEFT's, or for full
        fine-tuning the backbone's. Neither head is among them."""
        if isinstance(self.method, Lora):
            return get_peft_model_state_dict(self.encoder)  # type: ignore[no-any-return]
        if self.virtual is not None:
            return {"prompt_embeddings": self.virtual}
        return dict(self.encoder.named_parameters())

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Copies back what ``trained`` gave, all of it or a part."""
        trained = self.trained()
        for name, value in state.items():
            trained[name].copy_(value)
