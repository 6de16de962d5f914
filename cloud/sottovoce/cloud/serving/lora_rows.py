"""Adds low-rank updates to a backbone's linear layers, each row of a batch its own or none.

Why it is here: PEFT's mixed batches (``adapter_names``) go through the adapters one after another
in every layer; with 32 adapters that took three times as long as the model itself in bfloat16 (see
docs/serving.md). Here all rows' updates are two batched products a layer, however many adapters
there are.

An adapter is one matrix, Float (rank, width): for one layer after the other the rows of A, and next
to them the columns of (alpha / rank) B. Rank is the first axis, so that adapters of unequal rank
are stacked with zeros below, which add nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.nn.utils.rnn import pad_sequence

from sottovoce.cloud.models.classifier import targets
from sottovoce.cloud.models.methods import Lora
from sottovoce.core.errors import SottovoceError

__all__ = ["LoraRows", "misfit"]

_NAME = "base_model.model.{layer}.lora_{which}.weight"
"""What PEFT calls a matrix in its files."""


class LoraRows:
    """The linear layers of one encoder, ready for updates by row; not safe to share by threads.

    Args:
        encoder: gets a hook on every layer that LoRA can be in; outside of `applied` it computes
            what it did before.
    """

    def __init__(self, encoder: Any) -> None:
        attention, wide = targets(encoder, False), targets(encoder, True)
        # The attention's come first: an adapter of them alone ends where the others begin.
        self._layers: dict[str, nn.Linear] = {
            name: encoder.get_submodule(name) for name in dict.fromkeys([*attention, *wide])
        }
        self._attention = len(attention)
        self._rows: Tensor | None = None  # (B, R, width)
        start = 0
        for layer in self._layers.values():
            layer.register_forward_hook(self._hook(start))
            start += layer.in_features + layer.out_features

    def pack(self, lora: Lora, tensors: Mapping[str, Tensor]) -> Tensor:
        """An adapter's matrices as one: Float (rank, width).

        Args:
            lora: its method.
            tensors: its matrices by PEFT's names.

        Raises:
            SottovoceError: they are not those of this encoder's layers.
        """
        count = len(self._layers) if lora.feed_forward else self._attention
        layers = islice(self._layers.items(), count)
        parts: list[Tensor] = []
        try:
            for name, layer in layers:
                a = tensors[_NAME.format(layer=name, which="A")]
                b = tensors[_NAME.format(layer=name, which="B")]
                if a.shape != (lora.rank, layer.in_features) or b.shape != (
                    layer.out_features,
                    lora.rank,
                ):
                    raise KeyError(name)
                parts += [a, b.T * (lora.alpha / lora.rank)]
        except KeyError as error:
            raise misfit() from error
        if len(parts) != len(tensors):
            raise misfit()
        return torch.cat(parts, 1)

    @contextmanager
    def applied(self, rows: Sequence[Tensor | None]) -> Iterator[None]:
        """Updates row i of what the encoder is run on by ``rows[i]``, as `pack` made it."""
        there = [row for row in rows if row is not None]
        if there:
            width = max(row.shape[1] for row in there)
            none = there[0].new_zeros(0, width)
            filled = [none if r is None else F.pad(r, (0, width - r.shape[1])) for r in rows]
            self._rows = pad_sequence(filled, batch_first=True)
        try:
            yield
        finally:
            self._rows = None

    def _hook(self, start: int) -> Any:
        def update(layer: nn.Linear, inputs: tuple[Tensor], output: Tensor) -> Tensor | None:
            rows = self._rows
            if rows is None or start >= rows.shape[2]:
                return None
            middle = start + layer.in_features
            a = rows[:, :, start:middle]  # (B, R, in)
            b = rows[:, :, middle : middle + layer.out_features]  # (B, R, out)
            # W x + (alpha / rank) B A x, (B, n, out)
            return output.baddbmm_(torch.bmm(inputs[0], a.mT), b)

        return update


def misfit() -> SottovoceError:
    """For an adapter whose tensors are not of this backbone's shapes."""
    return SottovoceError(
        "the adapter does not fit the backbone", fix="customise again", subject="adapter"
    )
