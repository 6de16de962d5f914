"""Open the model that writes, a causal language model, train it, and run rows through it.

Training and generation must mean the same decoder by the same hash, and run it in the same way: a
stack of blocks, then the output weights. Methods are built into the stack, and rows of many
adapters share it, as they share an encoder. A decoder that would write nonsense is refused when it
is opened, because `transformers` adds missing weights and builds an unfit tokenizer without an
error.

Texts of many tenants are written together, and rows join and leave between any two tokens. The
keys and values of a row are a separate tensor. Rows are not padded to the longest one, and are not
copied when others join or leave. No index can reach another row's keys. All products except
attention are computed for the whole batch.

This works with every family of `transformers` that looks up its attention in the registry of
functions (Llama, Mistral, Qwen, Gemma 3, GPT-2 and many others).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from sottovoce.cloud.models.backbone import (
    LoadedBackbone,
    four_bits,
    load_tokenizer,
)
from sottovoce.cloud.models.chat import Chat
from sottovoce.cloud.models.classifier import AdaptedModel
from sottovoce.cloud.models.methods import Method
from sottovoce.cloud.models.rows import Row, Update, key_value_shape, stacked, updated
from sottovoce.core.bundle.backbone import hash_files, public_name, resolve
from sottovoce.core.errors import InvalidInput, NotReady

SENTENCE: Final = "The museum in Aarhus opened in 1859, and 42 people came."
"""A sentence that a tokenizer must return unchanged."""

_APART: Final = 1e-2
"""Permitted difference between logits computed in two ways, as a share of the largest."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A causal language model in memory, in evaluation mode.

    Attributes:
        backbone: the stack of blocks and the decoder's identity, in the form that methods, rows
            and adapters use. ``sha256`` covers weights and tokenizer.
        model: stack and output weights together, as in `transformers`.
        chat: turns conversations into token ids.
        tied: the stack's name for the input embeddings if they are also the output weights, or
            None.
    """

    backbone: LoadedBackbone
    model: Any
    chat: Chat
    tied: str | None

    @property
    def name(self) -> str:
        """The name in adapters; never a path of this machine."""
        return self.backbone.name

    @property
    def tokenizer(self) -> Any:
        return self.backbone.tokenizer

    @property
    def stack(self) -> Any:
        """The blocks between input embeddings and output weights; see `rows.run`."""
        return self.backbone.model

    @property
    def vocabulary(self) -> int:
        """Number of logits; some belong to no token of the tokenizer, see `tokens`."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def tokens(self) -> int:
        """Number of tokens with a text in the tokenizer; their ids are the first."""
        return min(self.vocabulary, len(self.tokenizer))

    @property
    def context(self) -> int:
        """Largest number of tokens in a prompt and its answer together."""
        return int(self.stack.config.max_position_embeddings)

    @property
    def ends(self) -> frozenset[int]:
        """Ids after which an answer is over."""
        given = self.model.generation_config.eos_token_id
        listed = given if isinstance(given, list) else [] if given is None else [given]
        return frozenset(listed) | self.chat.ends

    def logits(self, states: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """Return the logits of the next token: Float (..., h) -> Float32 (..., vocabulary).

        Args:
            states: last hidden states of the stack.
            weights: the weights that replaced the stack's, see `rows.Row.weights`. If the input
                embeddings are also the output weights, these include them.
        """
        output = self.model.get_output_embeddings()
        states = states.to(output.weight.dtype)
        if weights is None or self.tied is None:
            found: Tensor = output(states).float()
        else:
            found = F.linear(states, weights[self.tied]).float()
        most = getattr(self.stack.config, "final_logit_softcapping", None)
        return found if most is None else most * torch.tanh(found / most)


def load(name: str, *, dtype: torch.dtype = torch.float32, quantized: bool = False) -> Decoder:
    """Open a decoder by name or path, without running code or pickles from its folder.

    Args:
        name: a folder with config.json, safetensors and tokenizer.json, or a name on the hub; see
            `sottovoce.core.bundle.backbone.resolve`.
        dtype: of the weights, float32 or bfloat16.
        quantized: keep the weights of the blocks' linear layers in 4 bits, for QLoRA.

    Raises:
        NotFound: the folder or name does not exist.
        InvalidInput: the model is no decoder, is incomplete, or fails `check`.
    """
    folder = resolve(name)
    weights = sorted(folder.glob("*.safetensors"))
    words = folder / "tokenizer.json"
    if not weights or not words.is_file():
        raise _refused(name, "lacks safetensors weights or tokenizer.json")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        if not _writes(config):
            raise _refused(name, "is not a language model that writes")
        tokenizer = load_tokenizer(folder)
        model, found = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **(four_bits() if quantized else {"dtype": dtype}),
        )
    except InvalidInput:
        raise
    except Exception as error:  # readers raise errors of any kind on malformed files
        raise _refused(name, "cannot be read") from error
    if found["missing_keys"] or found["mismatched_keys"]:
        raise _refused(name, "lacks some of its weights")
    if not getattr(tokenizer, "is_fast", False):
        raise _refused(name, "has no fast tokenizer")
    return assemble(public_name(name), hash_files([*weights, words]), model, tokenizer, folder)


def assemble(name: str, sha256: str, model: Any, tokenizer: Any, folder: Path) -> Decoder:
    """Return a checked decoder from its parts.

    Raises:
        InvalidInput: see `check`.
    """
    model = model.eval().requires_grad_(False)
    stack = model.get_decoder()
    if stack is model:  # GPT-2 and similar models have no part of that name
        stack = model.base_model
    output = model.get_output_embeddings().weight
    tied = next((n for n, p in stack.named_parameters() if p is output), None)
    backbone = LoadedBackbone(name, sha256, stack, tokenizer, folder)
    decoder = Decoder(backbone, model, Chat.of(tokenizer), tied)
    check(decoder)
    return decoder


@torch.no_grad()
def check(decoder: Decoder) -> None:
    """Refuse a decoder that would not write as it was trained to.

    Raises:
        InvalidInput: the tokenizer changes a sentence, or has ids without embeddings; weights are
            not finite; or the logits differ from `Decoder.logits` on the stack's states, as in
            families with further steps between the two.
    """
    tokenizer, name = decoder.tokenizer, decoder.name
    if not getattr(decoder.stack.config, "max_position_embeddings", None):
        raise _refused(name, "does not say how many positions it has")
    ids = tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]
    back = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    if back.strip() != SENTENCE:
        raise _refused(name, "has a tokenizer that does not give back what it is given")
    rows = decoder.stack.get_input_embeddings().weight.shape[0]
    if max([*ids, *decoder.ends, *tokenizer.get_vocab().values()]) >= min(rows, decoder.vocabulary):
        raise _refused(name, "has a tokenizer with more tokens than the model has")
    if not all(bool(p.isfinite().all()) for p in decoder.model.parameters()):
        raise _refused(name, "has weights that are no numbers")
    given = torch.tensor([ids], device=decoder.model.device)
    whole = decoder.model(input_ids=given).logits.float()
    ours = decoder.logits(decoder.stack(input_ids=given).last_hidden_state)
    if not bool((whole - ours).abs().max() <= _APART * whole.abs().max()):
        raise _refused(name, "makes its logits in a way that is not known here")


def no_decoder() -> NotReady:
    """Return the error for a call that needs a decoder, on a server without one."""
    return NotReady(
        "this cloud has no model that writes",
        fix="ask the provider to serve one: `sotto-cloud serve --decoder FOLDER`",
        subject="decoder",
    )


def _writes(config: Any) -> bool:
    return (
        not config.is_encoder_decoder
        and config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        and config.model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
        and hasattr(config, "hidden_size")
    )


def _refused(name: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"decoder {public_name(name)!r} {problem}",
        fix="give a folder that save_pretrained of a causal language model and of its fast "
        "tokenizer wrote: Qwen2.5, Llama, Mistral, Gemma 3 (text) or GPT-2",
        subject="decoder",
    )


_ROWS = 128
"""Positions with logits in memory at once: 134 MB with 262,144 tokens."""

Missed = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class TextGenerator(AdaptedModel):
    """A decoder with the additions of training.

    Full fine-tuning trains the stack. Output weights change with it if they are also the input
    embeddings, and stay unchanged otherwise.

    Args:
        decoder: freshly loaded; is changed, because the method is built into it.
        vocabulary, width: see `AdaptedModel`.
    """

    task: ClassVar[str] = "generation"

    def __init__(
        self, decoder: Decoder, method: Method, *, vocabulary: int = 0, width: int = 96
    ) -> None:
        super().__init__(decoder.stack, method, vocabulary, width)
        self.output = decoder.model.get_output_embeddings()
        self._decoder = decoder

    def states(self, ids: Tensor, attention: Tensor) -> Tensor:
        """Return the last hidden states: Int (B, n), Int (B, n) -> Float (B, n, h)."""
        return self.adapted(ids, attention)  # type: ignore[no-any-return]

    def missed(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy of the next tokens, and whether each was the likeliest.

        Logits are computed only for these positions, some at a time; all logits would take
        gigabytes. The loss of a position depends only on the state there. So its gradient is
        computed with the loss and kept in place of the logits. Trained output weights contribute to
        every position, so in that case logits are computed again in the backward pass.

        Args:
            states: Float (positions, h).
            targets: the tokens, Int (positions,).

        Returns:
            Float (positions,) and Bool (positions,).
        """
        part = self._again if self.output.weight.requires_grad else _alone(self._missed)
        parts = zip(torch.split(states, _ROWS), torch.split(targets, _ROWS), strict=True)
        losses, hits = zip(*(part(*each) for each in parts), strict=True)
        return torch.cat(losses), torch.cat(hits)

    def _again(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        found: tuple[Tensor, Tensor] = checkpoint(
            self._missed, states, targets, use_reentrant=False, preserve_rng_state=False
        )
        return found

    def _missed(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logits = self._decoder.logits(states)
        return F.cross_entropy(logits, targets, reduction="none"), logits.argmax(-1) == targets


def _alone(missed: Missed) -> Missed:
    """Return ``missed`` for losses that depend on their own state and no other parameter."""

    def found(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses, hits = _WithGradients.apply(states, targets, missed)  # type: ignore[no-untyped-call]
        return losses, hits

    return found


class _WithGradients(torch.autograd.Function):
    """Computes each state's gradient together with its loss."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, targets: Tensor, missed: Missed) -> tuple[Tensor, Tensor]:
        learns = ctx.needs_input_grad[0]
        with torch.set_grad_enabled(learns):
            own = states.detach().requires_grad_(learns)
            losses, hits = missed(own, targets)
            if learns:
                ctx.save_for_backward(*torch.autograd.grad(losses.sum(), own))
        ctx.mark_non_differentiable(hits)
        return losses.detach(), hits

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None]:
        (gradients,) = ctx.saved_tensors
        return (gradients * upstream[0].unsqueeze(1)).to(gradients.dtype), None, None


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
