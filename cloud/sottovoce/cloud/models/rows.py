"""What an adapter brings into a forward pass, and the pass that rows of any adapters share.

Why it is here: a server answers many adapters at once, whatever they were trained with. An adapter
that is loaded becomes a `Row`; `run` puts rows side by side and never asks for a method. Training
goes through the same function: what is learnt is what is served.

A row can bring four things: virtual tokens before the text, virtual keys and values before every
attention layer's, updates to what layers give, or weights in the place of the encoder's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.func import functional_call

from sottovoce.cloud.models import virtual_tokens
from sottovoce.core.errors import SottovoceError

__all__ = ["Row", "Update", "Updates", "misfit", "run", "stacked", "updated"]

Update = Callable[[Tensor, Tensor], Tensor]
"""A layer's input (B, n, in) and output (B, n, out) to the output that takes its place; it may
write over the one it is given."""


@dataclass(frozen=True, slots=True, eq=False)
class Updates(ABC):
    """What one adapter changes of the outputs of an encoder's layers.

    Attributes:
        packed: all its numbers, in a shape that suits stacking.
    """

    packed: Tensor

    @classmethod
    @abstractmethod
    def stacked(cls, rows: Sequence[Self | None]) -> Mapping[str, Update]:
        """For layers by name, the update of a batch of which row i gets ``rows[i]``'s.

        Args:
            rows: at least one is there. A row of None must come out as it went in.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What one adapter brings into a pass; without anything the text goes through alone.

    Attributes:
        prompt: virtual tokens before the text, Float (P, h).
        prefix: virtual keys and values, Float (P, `virtual_tokens.prefix_width`).
        updates: to outputs of layers.
        weights: by name, in the place of all of the encoder's. Rows that have them share a pass
            with rows of the same adapter only, and bring nothing else.
    """

    prompt: Tensor | None = None
    prefix: Tensor | None = None
    updates: Updates | None = None
    weights: Mapping[str, Tensor] | None = None

    @property
    def front(self) -> int:
        """Positions it takes before the text."""
        return 0 if self.prompt is None else len(self.prompt)

    @property
    def bytes(self) -> int:
        """Memory it takes."""
        packed = self.updates.packed if self.updates else None
        held = (self.prompt, self.prefix, packed, *(self.weights or {}).values())
        return sum(t.numel() * t.element_size() for t in held if t is not None)

    @property
    def numbers(self) -> Tensor:
        """All that is learnt of it, as one tensor.

        Raises:
            ValueError: it brings nothing, or weights.
        """
        packed = self.updates.packed if self.updates else None
        found = [t for t in (self.prompt, self.prefix, packed) if t is not None]
        if len(found) != 1 or self.weights is not None:
            raise ValueError("only what is one tensor can be learnt so")
        return found[0]

    def holding(self, numbers: Tensor) -> Row:
        """The same kind of row with other `numbers`."""
        if self.prompt is not None:
            return replace(self, prompt=numbers)
        if self.prefix is not None:
            return replace(self, prefix=numbers)
        if self.updates is None:
            raise ValueError("a row of nothing holds no numbers")
        return replace(self, updates=replace(self.updates, packed=numbers))

    def to(self, device: torch.device, dtype: torch.dtype) -> Row:
        """The same in other numbers, on another device."""

        def placed(tensor: Tensor | None) -> Any:
            return None if tensor is None else tensor.to(device, dtype)

        updates, weights = self.updates, self.weights
        return Row(
            placed(self.prompt),
            placed(self.prefix),
            replace(updates, packed=placed(updates.packed)) if updates else None,
            {name: placed(t) for name, t in weights.items()} if weights is not None else None,
        )


def run(encoder: Any, inputs: Tensor, attention: Tensor, rows: Sequence[Row]) -> Tensor:
    """Last hidden states of the texts: Float (B, n, h).

    Args:
        encoder: a `transformers` encoder or decoder stack, wrapped by PEFT or not.
        inputs: token ids, Int (B, n), or input embeddings, Float (B, n, h).
        attention: 1 at tokens, 0 at padding, Int (B, n); padding on the right.
        rows: B of them, of one and the same ``weights``.
    """
    weights = rows[0].weights
    if weights is not None:
        return virtual_tokens.run(
            lambda **given: functional_call(encoder, dict(weights), (), given), inputs, attention
        )
    with updated(encoder, stacked(rows)):
        return virtual_tokens.run(
            encoder,
            inputs,
            attention,
            prompts=[row.prompt for row in rows],
            prefixes=[row.prefix for row in rows],
        )


def stacked(rows: Sequence[Row]) -> list[tuple[str, Update]]:
    """What a batch of rows makes of layers' outputs, by the layers' names; of a row without updates
    nothing. Who runs the same rows again need not stack them again."""
    found: list[tuple[str, Update]] = []
    for kind in dict.fromkeys(type(row.updates) for row in rows if row.updates is not None):
        own = [row.updates if type(row.updates) is kind else None for row in rows]
        found += kind.stacked(own).items()
    return found


@contextmanager
def updated(encoder: Any, updates: Sequence[tuple[str, Update]]) -> Iterator[None]:
    """While it lasts, layers give what the updates make of it."""
    with ExitStack() as undo:
        layers = _layers(encoder) if updates else {}
        for name, update in updates:
            undo.callback(layers[name].register_forward_hook(_hook(update)).remove)
        yield


_LAYERS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def _layers(encoder: Any) -> dict[str, Any]:
    """An encoder's layers by name, looked up once and not in every pass."""
    found = _LAYERS.get(encoder)
    if found is None:
        # Not the encoder itself, which would keep itself alive.
        found = {name: layer for name, layer in encoder.named_modules() if name}
        _LAYERS[encoder] = found
    return found


def _hook(update: Update) -> Any:
    return lambda _, inputs, output: update(inputs[0], output)


def misfit() -> SottovoceError:
    """For an adapter whose tensors are not of this backbone's shapes."""
    return SottovoceError(
        "the adapter does not fit the backbone", fix="customise again", subject="adapter"
    )
