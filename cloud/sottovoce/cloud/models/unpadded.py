"""Run a BERT encoder over texts of different lengths with little padding.

Texts are sorted by length and cut into blocks of nearly equal length. The tokens of all blocks lie
one after another. So the products with the backbone's weights, most of the work, run over all of
them at once. Attention and the adapters' updates run block by block, on views without copies.

The states are those of `rows.run`. Other families than BERT and RoBERTa are run by `rows.run`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.nn.utils.rnn import pad_sequence
from transformers import BertModel, RobertaModel, XLMRobertaModel

from sottovoce.cloud.models.rows import (
    Row,
    Update,
    first_position,
    key_value_shape,
    stack_left,
    stacked,
)

__all__ = ["Unpadded", "blocks"]

BLOCK: Final = 4
"""Cost of one more block, in tokens."""

_QUERY, _KEY, _VALUE = (f"attention.self.{name}" for name in ("query", "key", "value"))
_OUTPUT, _INNER, _OUTER = "attention.output.dense", "intermediate.dense", "output.dense"


def blocks(lengths: Sequence[int], overhead: int = BLOCK) -> list[list[int]]:
    """Return the cheapest cut of the texts, sorted by length, into padded blocks.

    Args:
        lengths: of the texts, in tokens.
        overhead: cost of a block, in tokens.

    Returns:
        Indices into ``lengths``, each once; the shortest texts come first.
    """
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    costs, starts = [0], [0]  # of the cheapest cut of the first n texts: its cost, its last block
    for end in range(1, len(order) + 1):
        length = lengths[order[end - 1]]
        cost, start = min(
            (costs[start] + (end - start) * length + overhead, start) for start in range(end)
        )
        costs.append(cost)
        starts.append(start)
    cut: list[list[int]] = []
    end = len(order)
    while end:
        cut.append(order[starts[end] : end])
        end = starts[end]
    return cut[::-1]


@dataclass(frozen=True, slots=True)
class _Block:
    """B texts of at most n tokens, virtual tokens included.

    Attributes:
        texts: their places in the pass.
        start, length: of its rows among the rows of all blocks; n.
        updates: of layers, by name.
        mask: Bool (B, 1, 1, P + n), or None if nothing is padded.
        prefixes: Float (layers, 2, B, heads, P, width): keys and values before the text's, or None.
    """

    texts: list[int]
    start: int
    length: int
    updates: Mapping[str, list[Update]]
    mask: Tensor | None
    prefixes: Tensor | None

    def of(self, states: Tensor) -> Tensor:
        """Return the view of this block: (N, width) -> (B, n, width)."""
        count = len(self.texts)
        rows = states[self.start : self.start + count * self.length]
        return rows.view(count, self.length, -1)


class Unpadded:
    """Passes over one encoder.

    Args:
        encoder: BERT or RoBERTa, in evaluation mode; see `of`.
    """

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self._layers = [
            (f"encoder.layer.{number}.", layer)
            for number, layer in enumerate(encoder.encoder.layer)
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
            rows: for each text its adapter's part, without ``weights``.
        """
        lengths = [row.front + len(text) for row, text in zip(rows, texts, strict=True)]
        cut, start = [], 0
        for chosen in blocks(lengths):
            cut.append(self._block(chosen, start, lengths, rows))
            start += len(chosen) * cut[-1].length
        states = self._embedded(texts, rows, cut)
        for number, (name, layer) in enumerate(self._layers):
            states = self._layer(number, name, layer, states, cut)
        found: dict[int, Tensor] = {}
        for block in cut:
            for place, each in zip(block.texts, block.of(states), strict=True):
                found[place] = each[rows[place].front : lengths[place]]
        return [found[place] for place in range(len(texts))]

    def _block(
        self, texts: list[int], start: int, lengths: Sequence[int], rows: Sequence[Row]
    ) -> _Block:
        length = lengths[texts[-1]]
        own = [rows[place] for place in texts]
        updates: dict[str, list[Update]] = {}
        for name, update in stacked(own):
            updates.setdefault(name, []).append(update)
        table = self._encoder.get_input_embeddings().weight
        places = torch.tensor([lengths[place] for place in texts], device=table.device)
        mask = torch.arange(length, device=table.device) < places[:, None]  # (B, n)
        prefixes = None
        if any(row.prefix is not None for row in own):
            # (B, P, 2 L H d) -> (L, 2, B, H, P, d)
            packed, there = stack_left([row.prefix for row in own], table)
            shape = (*packed.shape[:2], self._depth, 2, self._heads, self._width)
            prefixes = packed.view(shape).permute(2, 3, 0, 4, 1, 5)
            mask = torch.cat([there.bool(), mask], 1)
        needed = prefixes is not None or lengths[texts[0]] < length
        return _Block(
            texts, start, length, updates, mask[:, None, None] if needed else None, prefixes
        )

    def _embedded(
        self, texts: Sequence[Tensor], rows: Sequence[Row], cut: Sequence[_Block]
    ) -> Tensor:
        parts = self._encoder.embeddings
        words = self._encoder.get_input_embeddings()
        kind = parts.token_type_embeddings.weight[0]
        found = []
        for block in cut:
            sequences = []
            for place in block.texts:
                text, prompt = texts[place], rows[place].prompt
                embeds = text if text.is_floating_point() else words(text)
                sequences.append(
                    embeds if prompt is None else torch.cat([prompt.to(embeds), embeds])
                )
            padded = pad_sequence(sequences, batch_first=True)  # (B, n, h)
            positions = parts.position_embeddings.weight[self._first :][: block.length]
            found.append((padded + kind + positions).flatten(0, 1))
        return parts.LayerNorm(torch.cat(found))  # type: ignore[no-any-return]

    def _layer(
        self, number: int, name: str, layer: Any, states: Tensor, cut: Sequence[_Block]
    ) -> Tensor:
        def linear(part: str, inputs: Tensor) -> Tensor:
            outputs: Tensor = layer.get_submodule(part)(inputs)
            for block in cut:
                for update in block.updates.get(name + part, ()):
                    old = block.of(outputs)
                    new = update(block.of(inputs), old)
                    if new is not old:
                        old.copy_(new)
            return outputs

        three = [linear(part, states) for part in (_QUERY, _KEY, _VALUE)]
        mixed = torch.cat([*self._attended(number, three, cut)])
        states = layer.attention.output.LayerNorm(linear(_OUTPUT, mixed) + states)
        inner = layer.intermediate.intermediate_act_fn(linear(_INNER, states))
        return layer.output.LayerNorm(linear(_OUTER, inner) + states)  # type: ignore[no-any-return]

    def _attended(
        self, number: int, three: Sequence[Tensor], cut: Sequence[_Block]
    ) -> Iterator[Tensor]:
        """Yield each block's attention: Float (B n, h)."""
        for block in cut:
            query, key, value = (
                block.of(each).unflatten(-1, (self._heads, self._width)).transpose(1, 2)
                for each in three
            )  # (B, H, n, d)
            if block.prefixes is not None:
                before = block.prefixes[number]
                key, value = torch.cat([before[0], key], 2), torch.cat([before[1], value], 2)
            found = F.scaled_dot_product_attention(query, key, value, block.mask)
            yield found.transpose(1, 2).reshape(-1, self._heads * self._width)
