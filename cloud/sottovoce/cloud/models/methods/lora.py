"""LoRA: low-rank updates of linear layers, W + (alpha / rank) B A (Hu et al.).

QLoRA is LoRA over a frozen backbone in 4 bits (Dettmers et al.). PEFT does the training.
`LoraUpdates` lets rows of many adapters share a pass.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
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
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Method
from sottovoce.cloud.models.rows import Row, Update, Updates, misfit
from sottovoce.core.errors import InvalidInput, NotReady

_NAME = "base_model.model.{layer}.lora_{which}.weight"
"""PEFT's name for a matrix in its files."""


@dataclass(frozen=True, slots=True, eq=False)
class LoraUpdates(Updates):
    """One adapter's matrices, packed into Float (rank, width).

    Attributes:
        layers: name, inputs and outputs of each layer, in the order of packing. For two adapters
            of one encoder, one list is the beginning of the other.
    """

    layers: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(
        cls, layers: Mapping[str, nn.Linear], tensors: Mapping[str, Tensor], rank: int, scale: float
    ) -> Self:
        """Pack an adapter.

        Args:
            layers: the updated layers, by name.
            tensors: the matrices under PEFT's names.
            rank: of all matrices.
            scale: alpha / rank.

        Raises:
            SottovoceError: the matrices do not fit these layers.
        """
        parts: list[Tensor] = []
        try:
            for name, layer in layers.items():
                a = tensors[_NAME.format(layer=name, which="A")]
                b = tensors[_NAME.format(layer=name, which="B")]
                if a.shape != (rank, layer.in_features) or b.shape != (layer.out_features, rank):
                    raise misfit()
                parts += [a, b.T * scale]
        except KeyError as error:
            raise misfit() from error
        if len(parts) != len(tensors):
            raise misfit()
        sizes = ((name, layer.in_features, layer.out_features) for name, layer in layers.items())
        return cls(torch.cat(parts, 1), tuple(sizes))

    def unpacked(self, scale: float) -> dict[str, Tensor]:
        """Return the matrices under PEFT's names: the reverse of `of`."""
        found: dict[str, Tensor] = {}
        start = 0
        for name, inputs, outputs in self.layers:
            a, b, _ = self.packed[:, start:].tensor_split((inputs, inputs + outputs), 1)
            found[_NAME.format(layer=name, which="A")] = a
            found[_NAME.format(layer=name, which="B")] = b.T / scale
            start += inputs + outputs
        return found

    @classmethod
    def stacked(cls, rows: Sequence[Self | None]) -> Mapping[str, Update]:
        """Return the updates W x + (alpha / rank) B A x for every layer."""
        there = [row for row in rows if row is not None]
        widest = max(there, key=lambda row: row.packed.shape[1])
        rank, width = max(len(row.packed) for row in there), widest.packed.shape[1]
        none = widest.packed.new_zeros(rank, width)
        parts = [none if row is None else _padded(row.packed, rank, width) for row in rows]
        packed = torch.stack(parts) if len(parts) > 1 else parts[0][None]  # (B, R, width)
        # Cut once: in training, a cut in each layer would make a full-size gradient each.
        sizes = [size for _, *both in widest.layers for size in both]
        matrices = torch.split(packed, [*sizes, width - sum(sizes)], 2)
        updates: dict[str, Update] = {
            name: partial(_add, a, b)
            for (name, *_), a, b in zip(widest.layers, matrices[::2], matrices[1::2], strict=False)
        }
        return updates


def _padded(packed: Tensor, rank: int, width: int) -> Tensor:
    missing = rank - packed.shape[0], width - packed.shape[1]
    return F.pad(packed, (0, missing[1], 0, missing[0])) if any(missing) else packed


def _add(a: Tensor, b: Tensor, inputs: Tensor, output: Tensor) -> Tensor:
    """Add the updates: (B, R, in), (B, R, out), (B, n, in), (B, n, out) -> (B, n, out)."""
    # Autocast converts the operands of `bmm`, but not those of an in-place operation.
    return output.baddbmm_(torch.bmm(inputs, a.mT).to(output.dtype), b.to(output.dtype))


_ON_CPU: Final = "0.50"
"""The first version of bitsandbytes with 4-bit products on a CPU."""

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
        """Return the method at the requested rank, with a scale of 2."""
        rank = options.rank or cls().rank
        return cls(rank=rank, alpha=2 * rank, quantized=options.method == "qlora")

    def check_available(self) -> None:
        """Refuse QLoRA without bitsandbytes, or on a CPU if its version needs a GPU."""
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
        """Build LoRA into the layers of `targets`."""
        layers = targets(encoder, self.feed_forward)
        if self.quantized:  # norms and embeddings in float32 (QLoRA)
            prepare_model_for_kbit_training(encoder, use_gradient_checkpointing=False)
        return _WithLora(self, adapt(encoder, lora_config(self, layers)))

    def row(self, encoder: Any, tensors: Mapping[str, Tensor]) -> Row:
        """Return a row of all matrices, see `LoraUpdates`."""
        # Attention layers come first, so adapters with and without other layers can be stacked.
        names = targets(encoder, False)
        if self.feed_forward:
            names = list(dict.fromkeys([*names, *targets(encoder, True)]))
        layers = {name: encoder.get_submodule(name) for name in names}
        return Row(updates=LoraUpdates.of(layers, tensors, self.rank, self.alpha / self.rank))

    def tensors(self, row: Row) -> dict[str, Tensor]:
        if not isinstance(row.updates, LoraUpdates):
            raise misfit()
        return row.updates.unpacked(self.alpha / self.rank)


class _WithLora(AdaptedEncoder):
    def tensors(self) -> dict[str, Tensor]:
        return get_peft_model_state_dict(self.encoder)  # type: ignore[no-any-return]


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".")[:2])


def targets(model: nn.Module, feed_forward: bool) -> list[str]:
    """Return the names of the linear layers that get LoRA: those inside repeated blocks.

    Attention projections are nearly square and have "att" in their path: ``attention``,
    ``self_attn``, ``SelfAttention`` in different families.
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
    """Return PEFT's configuration for LoRA on the named linear layers."""
    return LoraConfig(r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=layers)


def adapt(model: Any, config: LoraConfig, name: str = "default") -> Any:
    """Return ``model`` with LoRA in its blocks; everything else is frozen."""
    return get_peft_model(model, config, adapter_name=name)
