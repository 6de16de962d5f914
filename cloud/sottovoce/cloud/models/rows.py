"""An adapter's part in a forward pass, and passes that rows of any adapters share.

A server answers many adapters at once, trained by any method. A loaded adapter becomes a `Row`.
`run` puts rows side by side and never asks for a method. Training uses the same function, so
training and serving compute the same.

A row can bring four things: virtual tokens before the text, virtual keys and values before those of
every attention layer, updates to the outputs of layers, or weights that replace the encoder's.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache

from sottovoce.core.errors import SottovoceError

__all__ = [
    "Row",
    "Update",
    "Updates",
    "draw_prefix",
    "draw_prompt",
    "first_position",
    "key_value_shape",
    "misfit",
    "prefix_width",
    "run",
    "run_fronted",
    "stacked",
    "updated",
]


def run_fronted(
    encoder: Any,
    inputs: Tensor,
    attention: Tensor,
    *,
    prompts: Sequence[Tensor | None] = (),
    prefixes: Sequence[Tensor | None] = (),
    **options: Any,
) -> Tensor:
    """Return the text's last hidden states: Float (B, n, h), without the virtual tokens.

    Args:
        encoder: a `transformers` encoder or decoder stack, wrapped by PEFT or not.
        inputs: token ids, Int (B, n), or input embeddings, Float (B, n, h).
        attention: 1 at tokens, 0 at padding, Int (B, n); padding on the right.
        prompts: for each row Float (P_i, h), or None; empty for none at all.
        prefixes: for each row Float (P_i, `prefix_width`), or None; empty for none at all.
        options: passed to the model (PEFT's ``adapter_names``).
    """
    if not any(p is not None for p in (*prompts, *prefixes)):
        name = "input_ids" if inputs.ndim == 2 else "inputs_embeds"
        found = encoder(**{name: inputs}, attention_mask=attention, **options)
        return found.last_hidden_state  # type: ignore[no-any-return]
    bare = _unwrapped(encoder)
    embeds = bare.get_input_embeddings()(inputs) if inputs.ndim == 2 else inputs
    front = 0
    if any(p is not None for p in prompts):
        stacked, mask = _stack(prompts, embeds)
        front = stacked.shape[1]
        embeds = torch.cat([stacked, embeds], 1)  # (B, P + n, h)
        attention = torch.cat([mask, attention], 1)
    accepted = inspect.signature(bare.forward).parameters
    if "position_ids" in accepted:
        options["position_ids"] = (attention.cumsum(1) - 1).clamp_min(0) + first_position(bare)
    if not any(p is not None for p in prefixes):
        found = encoder(inputs_embeds=embeds, attention_mask=attention, **options)
        return found.last_hidden_state[:, front:]  # type: ignore[no-any-return]
    stacked, mask = _stack(prefixes, embeds)
    with _cached(bare, _cache(bare, stacked)) as cache:
        found = encoder(
            inputs_embeds=embeds,
            attention_mask=torch.cat([mask, attention], 1),
            **_named(bare, cache),
            **options,
        )
    return found.last_hidden_state[:, front:]  # type: ignore[no-any-return]


def first_position(encoder: Any) -> int:
    """Return the position of a text's first token. RoBERTa counts from past its padding token."""
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


def prefix_width(config: Any) -> int:
    """Return the size of a prefix for each virtual token: keys and values of every layer."""
    layers, heads, width = key_value_shape(config)
    return layers * 2 * heads * width


@torch.no_grad()
def draw_prompt(encoder: Any, tokens: int) -> Tensor:
    """Return an initial prompt: the embeddings of random tokens, Float (tokens, h)."""
    return encoder.get_input_embeddings()(_random_ids(encoder, tokens))[0].clone()  # type: ignore[no-any-return]


@torch.no_grad()
def draw_prefix(encoder: Any, tokens: int) -> Tensor:
    """Return an initial prefix, Float (tokens, `prefix_width`): random tokens' keys and values.

    Real activations train better than random numbers (Li and Liang, section 7.4).
    """
    ids = _random_ids(encoder, tokens)
    with _cached(encoder, DynamicCache()) as cache:
        mask = torch.ones_like(ids)
        encoder(input_ids=ids, attention_mask=mask, **_named(encoder, cache))
    layers = cache.layers
    both = torch.stack([t for layer in layers for t in (layer.keys[0], layer.values[0])])
    return both.permute(2, 0, 1, 3).reshape(tokens, -1).clone()  # (2 L, H, P, d) -> (P, 2 L H d)


def _random_ids(encoder: Any, tokens: int) -> Tensor:
    table = encoder.get_input_embeddings()
    return torch.randint(table.num_embeddings, (1, tokens)).to(table.weight.device)


def _unwrapped(encoder: Any) -> Any:
    return encoder.get_base_model() if hasattr(encoder, "get_base_model") else encoder


def key_value_shape(config: Any) -> tuple[int, int, int]:
    """Return the numbers of layers and key-value heads, and the heads' width."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "d_kv", None) or getattr(config, "head_dim", None)
    return (
        config.num_hidden_layers,
        heads,
        width or config.hidden_size // config.num_attention_heads,
    )


def _stack(rows: Sequence[Tensor | None], like: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows of unequal length as one tensor, aligned to the text, and their mask."""
    width = next(row.shape[1] for row in rows if row is not None)
    filled = [like.new_zeros(0, width) if row is None else row.to(like) for row in rows]
    lengths = torch.tensor([len(row) for row in filled], device=like.device)  # (B,)
    stacked = pad_sequence(filled, batch_first=True, padding_side="left")  # (B, P, width)
    places = torch.arange(stacked.shape[1], 0, -1, device=like.device)  # (P,)
    return stacked, (places <= lengths[:, None]).long()


def _cache(encoder: Any, stacked: Tensor) -> DynamicCache:
    layers, heads, width = key_value_shape(encoder.config)
    kind = stacked.device.type
    if torch.is_autocast_enabled(kind):
        stacked = stacked.to(torch.get_autocast_dtype(kind))
    rows, depth, _ = stacked.shape
    parts = stacked.view(rows, depth, 2 * layers, heads, width).permute(2, 0, 3, 1, 4)
    cache = DynamicCache()
    for layer in range(layers):
        cache.update(parts[2 * layer], parts[2 * layer + 1], layer)
    return cache


def _named(module: Any, cache: DynamicCache) -> dict[str, DynamicCache]:
    """Return the cache under the module's argument name, which transformers 5.24 changed."""
    name = "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"
    return {name: cache}


@contextmanager
def _cached(encoder: Any, cache: DynamicCache) -> Iterator[DynamicCache]:
    """Pass the cache to the blocks of an encoder that would drop it: T5's.

    T5 derives positions from a bias on the distance between query and key. Virtual keys have no
    distance. Their bias is 0, so tokens between them and the text do not matter.
    """
    blocks = getattr(encoder, "block", ())

    def insert(block: Any, arguments: Any, options: dict[str, Any]) -> Any:
        return arguments, {**options, **_named(block, cache)}

    hooks = [block.register_forward_pre_hook(insert, with_kwargs=True) for block in blocks]
    with ExitStack() as undo:
        for hook in hooks:
            undo.callback(hook.remove)
        for block in blocks[:1]:  # only the first makes a bias, and passes it to the others
            attention = block.layer[0].SelfAttention
            attention.compute_bias = _without_distance(attention.compute_bias)
            undo.callback(delattr, attention, "compute_bias")
        yield cache


def _without_distance(bias: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def padded(queries: int, keys: int, device: Any = None, **_: Any) -> Tensor:
        return pad(bias(queries, queries, device=device), (keys - queries, 0))

    return padded


Update = Callable[[Tensor, Tensor], Tensor]
"""Maps a layer's input (B, n, in) and output (B, n, out) to a new output, perhaps in place."""


@dataclass(frozen=True, slots=True, eq=False)
class Updates(ABC):
    """One adapter's changes to the outputs of an encoder's layers.

    Attributes:
        packed: all numbers, in a shape for stacking.
    """

    packed: Tensor

    @classmethod
    @abstractmethod
    def stacked(cls, rows: Sequence[Self | None]) -> Mapping[str, Update]:
        """Return for layers by name the update of a batch, in which row i uses ``rows[i]``.

        Args:
            rows: with at least one update. A row of None must stay unchanged.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One adapter's part in a pass; an empty row lets the text through alone.

    Attributes:
        prompt: virtual tokens before the text, Float (P, h).
        prefix: virtual keys and values, Float (P, `prefix_width`).
        updates: to outputs of layers.
        weights: by name, replacing all of the encoder's. Rows with weights share a pass only with
            rows of the same adapter, and have no other fields.
    """

    prompt: Tensor | None = None
    prefix: Tensor | None = None
    updates: Updates | None = None
    weights: Mapping[str, Tensor] | None = None

    @property
    def front(self) -> int:
        """Positions before the text."""
        return 0 if self.prompt is None else len(self.prompt)

    @property
    def bytes(self) -> int:
        packed = self.updates.packed if self.updates else None
        held = (self.prompt, self.prefix, packed, *(self.weights or {}).values())
        return sum(t.numel() * t.element_size() for t in held if t is not None)

    @property
    def numbers(self) -> Tensor:
        """Return all learned numbers as one tensor.

        Raises:
            ValueError: the row is empty, or has weights.
        """
        packed = self.updates.packed if self.updates else None
        found = [t for t in (self.prompt, self.prefix, packed) if t is not None]
        if len(found) != 1 or self.weights is not None:
            raise ValueError("only what is one tensor can be learnt so")
        return found[0]

    def holding(self, numbers: Tensor) -> Row:
        """Return a row of the same kind with other `numbers`."""
        if self.prompt is not None:
            return replace(self, prompt=numbers)
        if self.prefix is not None:
            return replace(self, prefix=numbers)
        if self.updates is None:
            raise ValueError("a row of nothing holds no numbers")
        return replace(self, updates=replace(self.updates, packed=numbers))

    def to(self, device: torch.device, dtype: torch.dtype) -> Row:
        """Return the row in another number format, on another device."""

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
    """Return the texts' last hidden states: Float (B, n, h).

    Args:
        encoder: a `transformers` encoder or decoder stack, wrapped by PEFT or not.
        inputs: token ids, Int (B, n), or input embeddings, Float (B, n, h).
        attention: 1 at tokens, 0 at padding, Int (B, n); padding on the right.
        rows: B rows with the same ``weights``.
    """
    weights = rows[0].weights
    if weights is not None:
        return run_fronted(
            lambda **given: functional_call(encoder, dict(weights), (), given), inputs, attention
        )
    with updated(encoder, stacked(rows)):
        return run_fronted(
            encoder,
            inputs,
            attention,
            prompts=[row.prompt for row in rows],
            prefixes=[row.prefix for row in rows],
        )


def stacked(rows: Sequence[Row]) -> list[tuple[str, Update]]:
    """Return the updates of a batch of rows, by the names of layers.

    Rows without updates stay unchanged. A caller can keep the result for the same rows.
    """
    found: list[tuple[str, Update]] = []
    for kind in dict.fromkeys(type(row.updates) for row in rows if row.updates is not None):
        own = [row.updates if type(row.updates) is kind else None for row in rows]
        found += kind.stacked(own).items()
    return found


@contextmanager
def updated(encoder: Any, updates: Sequence[tuple[str, Update]]) -> Iterator[None]:
    """Apply the updates to the layers' outputs inside the block."""
    with ExitStack() as undo:
        layers = _layers(encoder) if updates else {}
        for name, update in updates:
            undo.callback(layers[name].register_forward_hook(_hook(update)).remove)
        yield


_LAYERS: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def _layers(encoder: Any) -> dict[str, Any]:
    """Return an encoder's layers by name, from a cache."""
    found = _LAYERS.get(encoder)
    if found is None:
        # Holds no reference to the encoder, which would keep the encoder alive.
        found = {name: layer for name, layer in encoder.named_modules() if name}
        _LAYERS[encoder] = found
    return found


def _hook(update: Update) -> Any:
    return lambda _, inputs, output: update(inputs[0], output)


def misfit() -> SottovoceError:
    """Return the error for an adapter with tensors of the wrong shapes."""
    return SottovoceError(
        "the adapter does not fit the backbone", fix="customise again", subject="adapter"
    )
