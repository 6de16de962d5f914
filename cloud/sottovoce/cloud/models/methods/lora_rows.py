"""Low-rank updates of linear layers, each row of a batch its own or none.

Why it is here: PEFT's mixed batches (``adapter_names``) go through the adapters one after another
in every layer; with 32 adapters that took three times as long as the model itself in bfloat16 (see
docs/serving.md). Here all rows' updates are two batched products a layer, however many adapters
there are.

An adapter is one matrix, Float (rank, width): for one layer after the other the rows of A, and next
to them the columns of (alpha / rank) B. Rank is the first axis, so that adapters of unequal rank
are stacked with zeros below, which add nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.rows import Update, Updates, misfit

__all__ = ["LoraUpdates"]

_NAME = "base_model.model.{layer}.lora_{which}.weight"
"""What PEFT calls a matrix in its files."""


@dataclass(frozen=True, slots=True, eq=False)
class LoraUpdates(Updates):
    """One adapter's matrices, packed into Float (rank, width).

    Attributes:
        layers: name, inputs and outputs of each layer, in the order they are packed. Of two
            adapters of one encoder, one's are the first of the other's.
    """

    layers: tuple[tuple[str, int, int], ...]

    @classmethod
    def of(
        cls, layers: Mapping[str, nn.Linear], tensors: Mapping[str, Tensor], rank: int, scale: float
    ) -> Self:
        """Packs an adapter.

        Args:
            layers: those it updates, by name.
            tensors: its matrices by PEFT's names.
            rank: of all of them.
            scale: alpha / rank.

        Raises:
            SottovoceError: the matrices are not those of these layers.
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
        """The reverse of `of`: its matrices by PEFT's names."""
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
        """W x + (alpha / rank) B A x in every layer."""
        there = [row for row in rows if row is not None]
        widest = max(there, key=lambda row: row.packed.shape[1])
        rank, width = max(len(row.packed) for row in there), widest.packed.shape[1]
        none = widest.packed.new_zeros(rank, width)
        packed = torch.stack(
            [none if row is None else _padded(row.packed, rank, width) for row in rows]
        )  # (B, R, width)
        # Cut once: a cut a layer would, in training, make as many gradients of the full size.
        sizes = [size for _, *both in widest.layers for size in both]
        parts = torch.split(packed, [*sizes, width - sum(sizes)], 2)
        updates: dict[str, Update] = {
            name: partial(_add, a, b)
            for (name, *_), a, b in zip(widest.layers, parts[::2], parts[1::2], strict=False)
        }
        return updates


def _padded(packed: Tensor, rank: int, width: int) -> Tensor:
    missing = rank - packed.shape[0], width - packed.shape[1]
    return F.pad(packed, (0, missing[1], 0, missing[0])) if any(missing) else packed


def _add(a: Tensor, b: Tensor, inputs: Tensor, output: Tensor) -> Tensor:
    """(B, R, in), (B, R, out), (B, n, in), (B, n, out) -> (B, n, out)."""
    return output.baddbmm_(torch.bmm(inputs, a.mT), b)
