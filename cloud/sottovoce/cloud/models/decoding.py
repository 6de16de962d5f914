"""Run rows of unequal length through a decoder, each from its own last position.

Texts of many tenants are written together, and rows join and leave between any two tokens. The
keys and values of a row are a separate tensor. Rows are not padded to the longest one, and are not
copied when others join or leave. No index can reach another row's keys. All products except
attention are computed for the whole batch.

This works with every family of `transformers` that looks up its attention in the registry of
functions (Llama, Mistral, Qwen, Gemma 3, GPT-2 and many others).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Self

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812 - its customary name
from transformers import AttentionInterface

from sottovoce.cloud.models.rows import Row, Update, key_value_shape, stacked, updated

__all__ = ["ATTENTION", "Cache", "Part", "advance", "position_bytes"]

ATTENTION: Final = "sottovoce_rows"
"""Name of our attention in the registry; `advance` accepts a stack after it is set."""


@dataclass(slots=True, eq=False)
class Cache:
    """The keys and values of one row.

    Attributes:
        held: keys and values, Float (layers, 2, heads, room, width).
        front: length of the prefix, which stands before position 0.
        length: filled part of the room, including the prefix.
    """

    held: Tensor
    front: int
    length: int

    @classmethod
    def begun(cls, stack: Any, row: Row, tokens: int, dtype: torch.dtype) -> Self:
        """Return a cache for ``tokens`` tokens, on the stack's device.

        The tokens include virtual tokens. The cache begins with the prefix of ``row``, if any.
        """
        layers, heads, width = key_value_shape(stack.config)
        front = 0 if row.prefix is None else len(row.prefix)
        room = (layers, 2, heads, front + tokens, width)
        held = torch.empty(room, device=_device(stack), dtype=dtype)
        if row.prefix is not None:
            prefix = row.prefix.view(front, layers, 2, heads, width)
            held[..., :front, :] = prefix.permute(1, 2, 3, 0, 4)
        return cls(held, front, front)


def position_bytes(stack: Any, dtype: torch.dtype) -> int:
    """Return the bytes that a `Cache` takes for each token."""
    layers, heads, width = key_value_shape(stack.config)
    return 2 * layers * heads * width * dtype.itemsize


@dataclass(frozen=True, slots=True)
class Part:
    """A row's input in one pass: virtual tokens, Float (p, h) or None, then token ids."""

    row: Row
    cache: Cache
    virtual: Tensor | None
    ids: Sequence[int]

    @property
    def length(self) -> int:
        """Number of positions in this part."""
        return len(self.ids) + (0 if self.virtual is None else len(self.virtual))


@torch.inference_mode()
def advance(
    stack: Any, parts: Sequence[Part], updates: Sequence[tuple[str, Update]] | None = None
) -> Tensor:
    """Return the last hidden state of every part, Float (B, h), and extend the caches.

    After an error, the caches are unchanged.

    Args:
        stack: of a decoder, with `ATTENTION` set.
        parts: at least one. Each has a separate cache with enough room, and all have the same
            ``row.weights``.
        updates: the result of `rows.stacked` for these rows, if the caller has it.
    """
    longest = max(part.length for part in parts)
    places = [part.cache.length - part.cache.front for part in parts]
    positions = torch.tensor(
        [
            [0] * (longest - part.length) + list(range(place, place + part.length))
            for part, place in zip(parts, places, strict=True)
        ],
        device=_device(stack),
    )
    given = {"position_ids": positions, "use_cache": False, **_inputs(stack, parts, longest)}
    with _remembering(_Pass([(part.cache, part.length) for part in parts])):
        weights = parts[0].row.weights
        if weights is not None:
            found = functional_call(stack, dict(weights), (), given)
        else:
            with updated(stack, stacked([p.row for p in parts]) if updates is None else updates):
                found = stack(**given)
    for part in parts:
        part.cache.length += part.length
    states: Tensor = found.last_hidden_state[:, -1]
    return states


def _device(stack: Any) -> torch.device:
    found: torch.device = next(stack.parameters()).device
    return found


def _inputs(stack: Any, parts: Sequence[Part], longest: int) -> dict[str, Tensor]:
    """Return ids (B, n), or embeddings (B, n, h) for virtual tokens; padded on the left."""
    ids = [[0] * (longest - len(part.ids)) + list(part.ids) for part in parts]
    tokens = torch.tensor(ids, device=_device(stack))
    if all(part.virtual is None for part in parts):
        return {"input_ids": tokens}
    embeddings = stack.get_input_embeddings()(tokens)
    for place, part in enumerate(parts):
        if part.virtual is not None:
            start = longest - part.length
            embeddings[place, start : start + len(part.virtual)] = part.virtual
    return {"inputs_embeds": embeddings}


@dataclass(frozen=True)
class _Pass:
    """The rows that go through the model now: their caches and numbers of new positions."""

    rows: list[tuple[Cache, int]]
    masks: dict[tuple[int, int | None], Tensor] = field(default_factory=dict)

    @cached_property
    def views(self) -> list[tuple[Sequence[Tensor], Sequence[Tensor]]]:
        """Return views of the caches, for passes with one new position in every row.

        For each row there are two lists. The first has, for every layer, the place of the new key
        and value, (2, K, 1, d). The second has the keys and values of every layer, alternating and
        including the new position, (1, K, t, d). The views are made once, because they cost as much
        as short rows.
        """
        found: list[tuple[Sequence[Tensor], Sequence[Tensor]]] = []
        for cache, _ in self.rows:
            room = cache.held[..., cache.length : cache.length + 1, :].unbind(0)
            known = cache.held.flatten(0, 1)[:, None, :, : cache.length + 1].unbind(0)
            found.append((room, known))
        return found

    def mask(self, place: int, window: int | None) -> Tensor:
        """Return the positions that each new position may see, Bool (new, past + new)."""
        found = self.masks.get((place, window))
        if found is None:
            cache, new = self.rows[place]
            device = cache.held.device
            keys = torch.arange(cache.length + new, device=device)
            queries = torch.arange(cache.length, cache.length + new, device=device)[:, None]
            found = keys <= queries
            if window is not None:
                found &= keys > queries - window
            self.masks[place, window] = found
        return found


_NOW: ContextVar[_Pass] = ContextVar("_NOW")


@contextmanager
def _remembering(now: _Pass) -> Iterator[None]:
    token = _NOW.set(now)
    try:
        yield
    finally:
        _NOW.reset(token)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Compute attention: (B, H, n, d), twice (B, K, n, d), padded left -> (B, n, H, d)."""
    now, heads = _NOW.get(), key.shape[1]
    fresh = torch.stack((key, value))  # (2, B, K, n, d)
    longest, width = query.shape[2:]
    grouped = query.reshape(len(query), heads, -1, longest, width)  # (B, K, G, n, d)
    if longest == 1:
        return _attend_one(now, module.layer_idx, grouped, fresh, scaling, sliding_window), None
    out = torch.zeros_like(grouped)
    for place, (cache, new) in enumerate(now.rows):
        layer, total = cache.held[module.layer_idx], cache.length + new
        layer[:, :, cache.length : total] = fresh[:, place, :, longest - new :]
        keys, values = layer[:, :, None, :total].expand(-1, -1, grouped.shape[2], -1, -1)
        out[place, :, :, longest - new :] = F.scaled_dot_product_attention(
            grouped[place, :, :, longest - new :],
            keys,
            values,
            attn_mask=now.mask(place, sliding_window),
            scale=scaling,
        )
    return out.flatten(1, 2).transpose(1, 2), None


def _attend_one(
    now: _Pass, index: int, query: Tensor, fresh: Tensor, scaling: float | None, window: int | None
) -> Tensor:
    """Compute attention for one new position in each row: (B, K, G, 1, d) -> (B, 1, H, d).

    The position may see its whole window, so no mask is needed. The heads with common keys
    become queries of one product.
    """
    found = []
    queries, added = torch.split(query.squeeze(3), 1), fresh.unbind(1)  # (1, K, G, d), (2, K, 1, d)
    for (room, known), own, new in zip(now.views, queries, added, strict=True):
        room[index].copy_(new)
        keys, values = known[2 * index], known[2 * index + 1]  # (1, K, t, d)
        if window is not None:
            keys, values = keys[:, :, -window:], values[:, :, -window:]
        found.append(F.scaled_dot_product_attention(own, keys, values, scale=scaling))
    return torch.cat(found).flatten(1, 2).unsqueeze(1)


AttentionInterface.register(ATTENTION, _attend)
