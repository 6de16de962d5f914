"""Run a BERT encoder over texts of different lengths without padding.

The tokens of all texts lie one after another. So the products with the backbone's weights, most of
the work, run over all of them at once. Attention and the adapters' updates run text by text, on
views without copies. No index can reach another text.

The states are those of `rows.run`. Other families than BERT and RoBERTa are run by `rows.run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name
from transformers import BertModel, RobertaModel, XLMRobertaModel

from sottovoce.cloud.models.rows import Row, Update, first_position, key_value_shape, stacked

__all__ = ["Unpadded"]

_THREE = tuple(f"attention.self.{name}" for name in ("query", "key", "value"))
_OUTPUT, _INNER, _OUTER = "attention.output.dense", "intermediate.dense", "output.dense"


@dataclass(frozen=True, slots=True)
class _Text:
    """One text's part of a pass.

    Attributes:
        updates: of layers, by name.
        prefix: Float (layers, 2, 1, heads, P, width): keys and values before the text's, or None.
    """

    updates: Mapping[str, list[Update]]
    prefix: Tensor | None


class Unpadded:
    """Passes over one encoder.

    Args:
        encoder: BERT or RoBERTa, in evaluation mode; see `of`.
    """

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._layers = [
            (f"encoder.layer.{place}.", layer) for place, layer in enumerate(encoder.encoder.layer)
        ]
        self._depth, self._heads, self._width = key_value_shape(encoder.config)
        self._first = first_position(encoder)

    @classmethod
    def of(cls, encoder: Any) -> Self | None:
        """Return passes over ``encoder``, or None if it is of another family or kind."""
        config = getattr(encoder, "config", None)
        plain = (
            isinstance(encoder, (BertModel, RobertaModel, XLMRobertaModel))
            and not getattr(config, "is_decoder", False)
            and getattr(config, "position_embedding_type", None) in (None, "absolute")
        )
        return cls(encoder) if plain else None

    def __call__(self, texts: Sequence[Tensor], rows: Sequence[Row]) -> list[Tensor]:
        """Return the last hidden states of each text, without virtual tokens: Float (n_i, h).

        Args:
            texts: token ids, Int (n_i,), or input embeddings, Float (n_i, h).
            rows: for each text its adapter's part, without ``weights``. In a pass in bfloat16,
                float32 updates are fastest.
        """
        lengths = [row.front + len(text) for row, text in zip(rows, texts, strict=True)]
        parts = [self._text(row) for row in rows]
        states = self._embedded(texts, rows, lengths)
        for number, (name, layer) in enumerate(self._layers):
            states = self._layer(number, name, layer, states, lengths, parts)
        pairs = zip(torch.split(states, lengths), rows, strict=True)
        return [each[row.front :] for each, row in pairs]

    def _text(self, row: Row) -> _Text:
        updates: dict[str, list[Update]] = {}
        for name, update in stacked([row]):
            updates.setdefault(name, []).append(update)
        if row.prefix is None:
            return _Text(updates, None)
        shape = (1, len(row.prefix), self._depth, 2, self._heads, self._width)
        prefix = row.prefix.to(self._encoder.get_input_embeddings().weight).view(shape)
        return _Text(updates, prefix.permute(2, 3, 0, 4, 1, 5))

    def _embedded(
        self, texts: Sequence[Tensor], rows: Sequence[Row], lengths: Sequence[int]
    ) -> Tensor:
        parts = self._encoder.embeddings
        words = self._encoder.get_input_embeddings()
        found = []
        for text, row in zip(texts, rows, strict=True):
            embeds = text if text.is_floating_point() else words(text)
            found += [embeds] if row.prompt is None else [row.prompt.to(embeds), embeds]
        table = parts.position_embeddings.weight[self._first :]
        positions = torch.cat([table[:length] for length in lengths])
        states = torch.cat(found) + parts.token_type_embeddings.weight[0] + positions
        return parts.LayerNorm(states)  # type: ignore[no-any-return]

    def _layer(
        self,
        number: int,
        name: str,
        layer: Any,
        states: Tensor,
        lengths: list[int],
        texts: Sequence[_Text],
    ) -> Tensor:
        def linear(part: str, inputs: Tensor, wide: Tensor | None = None) -> Tensor:
            outputs: Tensor = layer.get_submodule(part)(inputs)
            updates = [text.updates.get(name + part, ()) for text in texts]
            return _updated(inputs if wide is None else wide, outputs, lengths, updates)

        # Small products in float32 are twice as fast as in bfloat16.
        wide = states.float()
        three = [linear(part, states, wide) for part in _THREE]
        mixed = torch.cat(list(self._attended(number, three, lengths, texts)))
        states = layer.attention.output.LayerNorm(linear(_OUTPUT, mixed) + states)
        inner = layer.intermediate.intermediate_act_fn(linear(_INNER, states))
        return layer.output.LayerNorm(linear(_OUTER, inner) + states)  # type: ignore[no-any-return]

    def _attended(
        self,
        number: int,
        three: Sequence[Tensor],
        lengths: list[int],
        texts: Sequence[_Text],
    ) -> Iterator[Tensor]:
        """Yield each text's attention: Float (n_i, h)."""
        heads = [
            torch.split(each.view(1, -1, self._heads, self._width).transpose(1, 2), lengths, 2)
            for each in three
        ]  # three times Float (1, H, n_i, d)
        for text, query, key, value in zip(texts, *heads, strict=True):
            if text.prefix is not None:
                before = text.prefix[number]
                key, value = torch.cat([before[0], key], 2), torch.cat([before[1], value], 2)
            found = F.scaled_dot_product_attention(query, key, value)
            yield found.transpose(1, 2).flatten(2)[0]


def _updated(
    inputs: Tensor, outputs: Tensor, lengths: list[int], updates: Sequence[Sequence[Update]]
) -> Tensor:
    """Return a layer's outputs with each text's updates, in place in float32."""
    if not any(updates):
        return outputs
    wide = outputs.dtype != torch.float32
    changed = torch.zeros_like(outputs, dtype=torch.float32) if wide else outputs
    halves = (torch.split(each, lengths) for each in (inputs.float(), changed))
    parts = zip(*halves, updates, strict=True)
    for text, old, own in parts:
        for update in own:
            new = update(text[None], old[None])
            if new.data_ptr() != old.data_ptr():
                old.copy_(new[0])
    return outputs.add_(changed) if wide else outputs
