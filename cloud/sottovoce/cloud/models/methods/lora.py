"""LoRA: low-rank updates of linear layers, W + (alpha / rank) B A (Hu et al.).

QLoRA is the same over a frozen backbone in 4 bits (Dettmers et al.). Training is PEFT's; how rows
of many adapters share a pass is in `lora_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, ClassVar, Final, Self

import torch
from peft import (
    LoraConfig,
    get_peft_model,
    get_peft_model_state_dict,
    prepare_model_for_kbit_training,
)
from torch import Tensor, nn

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Method
from sottovoce.cloud.models.methods.lora_rows import LoraUpdates
from sottovoce.cloud.models.rows import Row, misfit
from sottovoce.core.errors import InvalidInput, NotReady

__all__ = ["Lora", "adapt", "lora_config", "targets"]

_ON_CPU: Final = "0.50"
"""The first bitsandbytes that multiplies 4-bit weights without a GPU."""

_BLOCK = re.compile(r"\.\d+\.")


@dataclass(frozen=True, slots=True)
class Lora(Method):
    """Rank and scale of the low-rank updates; ``quantized`` for QLoRA."""

    learning_rate: ClassVar[float] = 1e-3

    rank: int = 8
    alpha: int = 16
    feed_forward: bool = False
    quantized: bool = False

    @classmethod
    def from_options(cls, options: TrainingOptions) -> Self:
        """The rank asked for, scaled by 2."""
        rank = options.rank or cls().rank
        return cls(rank=rank, alpha=2 * rank, quantized=options.method == "qlora")

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Also from the time when there was dropout."""
        given = {**facts}
        given.pop("dropout", None)
        return cls(**given)

    def check_available(self) -> None:
        """Refuses QLoRA without bitsandbytes, or on a CPU with one that needs a GPU."""
        if not self.quantized:
            return
        least = "" if torch.cuda.is_available() else f">={_ON_CPU}"
        found = version("bitsandbytes") if find_spec("bitsandbytes") else ""
        if not found or (least and _numbers(found) < _numbers(_ON_CPU)):
            raise NotReady(
                f"this cloud lacks bitsandbytes{least}, which QLoRA needs",
                fix=f"ask the provider for `pip install 'bitsandbytes{least}'`, or train with the "
                "method lora: it gives the same kind of adapter",
                subject="training.method",
            )

    def build(self, encoder: Any) -> AdaptedEncoder:
        """Inside of the layers that `targets` names."""
        layers = targets(encoder, self.feed_forward)
        if self.quantized:  # norms and embeddings in float32 (QLoRA)
            prepare_model_for_kbit_training(encoder, use_gradient_checkpointing=False)
        return _WithLora(self, adapt(encoder, lora_config(self, layers)))

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """All matrices as one, see `LoraUpdates`."""
        # The attention's come first: an adapter of them alone ends where the others begin.
        names = targets(encoder, False)
        if self.feed_forward:
            names = list(dict.fromkeys([*names, *targets(encoder, True)]))
        layers = {name: encoder.get_submodule(name) for name in names}
        return Row(updates=LoraUpdates.of(layers, tensors, self.rank, self.alpha / self.rank))

    def tensors(self, row: Row) -> dict[str, Tensor]:
        """See `Method.tensors`."""
        if not isinstance(row.updates, LoraUpdates):
            raise misfit()
        return row.updates.unpacked(self.alpha / self.rank)


class _WithLora(AdaptedEncoder):
    def tensors(self) -> dict[str, Tensor]:
        return get_peft_model_state_dict(self.encoder)  # type: ignore[no-any-return]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])


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
