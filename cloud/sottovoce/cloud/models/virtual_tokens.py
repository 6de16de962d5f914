"""Runs a backbone with learned virtual tokens in front, each row with its own or none.

Why it is here: prompt tuning puts vectors before the text, prefix tuning puts a key and a value
before every attention layer's. PEFT does both for one adapter at a time; a server answers many in
one pass, so rows are stacked here, left-padded, and the padding masked. Training goes through the
same function as serving: what is learnt is what is served. A prefix is laid out as PEFT's
``prompt_embeddings``; unlike there the text keeps the positions it was pre-trained at.

A row's text has the same positions whatever stands in front of other rows, and so the same states
as alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence
from transformers import DynamicCache

__all__ = ["draw_prefix", "draw_prompt", "key_value_shape", "prefix_width", "run"]


def run(
    encoder: Any,
    inputs: Tensor,
    attention: Tensor,
    *,
    prompts: Sequence[Tensor | None] = (),
    prefixes: Sequence[Tensor | None] = (),
    **options: Any,
) -> Tensor:
    """Last hidden states of the text: Float (B, n, h), without the virtual tokens' own.

    Args:
        encoder: a `transformers` encoder or decoder stack, wrapped by PEFT or not.
        inputs: token ids, Int (B, n), or input embeddings, Float (B, n, h).
        attention: 1 at tokens, 0 at padding, Int (B, n); padding on the right.
        prompts: for each row Float (P_i, h), or None; empty for none at all.
        prefixes: for each row Float (P_i, `prefix_width`), or None; empty for none at all.
        options: handed on to the model (PEFT's ``adapter_names``).
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
        options["position_ids"] = (attention.cumsum(1) - 1).clamp_min(0)
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


def prefix_width(config: Any) -> int:
    """Numbers a prefix holds for each virtual token: keys and values of every layer."""
    layers, heads, width = key_value_shape(config)
    return layers * 2 * heads * width


@torch.no_grad()
def draw_prompt(encoder: Any, tokens: int) -> Tensor:
    """A prompt to start from: the embeddings of random tokens, Float (tokens, h)."""
    return encoder.get_input_embeddings()(_random_ids(encoder, tokens))[0].clone()  # type: ignore[no-any-return]


@torch.no_grad()
def draw_prefix(encoder: Any, tokens: int) -> Tensor:
    """A prefix to start from: the keys and values that ``tokens`` random tokens have.

    Real activations train better than random numbers (Li and Liang, section 7.4). Float (tokens,
    `prefix_width`).
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
    """Layers, key-value heads and their width."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "d_kv", None) or getattr(config, "head_dim", None)
    return (
        config.num_hidden_layers,
        heads,
        width or config.hidden_size // config.num_attention_heads,
    )


def _stack(rows: Sequence[Tensor | None], like: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of unequal length as one tensor, next to the text, and where they are."""
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
    """The cache under the name that a module takes it by, which transformers 5.24 changed."""
    name = "cache" if "cache" in inspect.signature(module.forward).parameters else "past_key_values"
    return {name: cache}


@contextmanager
def _cached(encoder: Any, cache: DynamicCache) -> Iterator[DynamicCache]:
    """Hands the cache to the blocks of an encoder that drops it on the way: T5's.

    T5 tells positions by a bias on the distance of query and key. Virtual keys are at no distance:
    theirs is 0, so that it does not matter what stands between them and the text.
    """
    blocks = getattr(encoder, "block", ())

    def insert(block: Any, arguments: Any, options: dict[str, Any]) -> Any:
        return arguments, {**options, **_named(block, cache)}

    hooks = [block.register_forward_pre_hook(insert, with_kwargs=True) for block in blocks]
    with ExitStack() as undo:
        for hook in hooks:
            undo.callback(hook.remove)
        for block in blocks[:1]:  # the only one that makes a bias, and hands it to the others
            attention = block.layer[0].SelfAttention
            attention.compute_bias = _without_distance(attention.compute_bias)
            undo.callback(delattr, attention, "compute_bias")
        yield cache


def _without_distance(bias: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def padded(queries: int, keys: int, device: Any = None, **_: Any) -> Tensor:
        return pad(bias(queries, queries, device=device), (keys - queries, 0))

    return padded
