"""Opens the model that writes: a causal language model as its makers saved it.

Why it is here: trainer and engine must mean the same decoder by the same hash, and go through it
the same way: a stack of blocks, which methods are built into and rows of many adapters share as
they share an encoder, and after it the output weights. What would write nonsense is refused when it
is opened: `transformers` fills in weights that are missing, and makes a tokenizer of what it finds,
without an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
)

from sottovoce.cloud.models.backbone import (
    LoadedBackbone,
    four_bits,
    hash_files,
    load_tokenizer,
    public_name,
    resolve,
)
from sottovoce.cloud.models.chat import Chat
from sottovoce.cloud.models.classifier import AdaptedModel
from sottovoce.cloud.models.methods import Method
from sottovoce.core.errors import InvalidInput, NotReady

__all__ = ["SENTENCE", "Decoder", "TextGenerator", "assemble", "check", "load", "no_decoder"]

SENTENCE: Final = "The museum in Aarhus opened in 1859, and 42 people came."
"""What a tokenizer must give back as it was given."""

_APART: Final = 1e-2
"""Most by which logits made in two ways may differ, as a share of the largest."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """A causal language model in memory, in evaluation mode.

    Attributes:
        backbone: the stack of blocks and what identifies the whole, as methods, rows and adapters
            know a backbone. ``sha256`` covers weights and tokenizer.
        model: stack and output weights together, as `transformers` has them.
        chat: how turns become token ids.
        tied: what the stack calls its input embeddings where they are the output weights as well,
            else None.
    """

    backbone: LoadedBackbone
    model: Any
    chat: Chat
    tied: str | None

    @property
    def name(self) -> str:
        """The name that adapters carry; never a path of this machine."""
        return self.backbone.name

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer, of the fast kind."""
        return self.backbone.tokenizer

    @property
    def stack(self) -> Any:
        """The blocks between input embeddings and output weights; see `rows.run`."""
        return self.backbone.model

    @property
    def hidden_size(self) -> int:
        """Width of the hidden states."""
        return self.backbone.hidden_size

    @property
    def layers(self) -> int:
        """Number of blocks, each with keys and values of its own."""
        return int(self.stack.config.num_hidden_layers)

    @property
    def vocabulary(self) -> int:
        """Number of logits; some belong to no token of the tokenizer, see `tokens`."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @property
    def tokens(self) -> int:
        """Number of tokens that the tokenizer has a text for; their ids are the first."""
        return min(self.vocabulary, len(self.tokenizer))

    @property
    def context(self) -> int:
        """Most tokens a prompt and its answer may have together."""
        return int(self.stack.config.max_position_embeddings)

    @property
    def ends(self) -> frozenset[int]:
        """Ids after which an answer is over."""
        given = self.model.generation_config.eos_token_id
        listed = given if isinstance(given, list) else [] if given is None else [given]
        return frozenset(listed) | self.chat.ends

    def logits(self, states: Tensor, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """What comes next: last hidden states Float (..., h) -> Float32 (..., vocabulary).

        Args:
            states: of the stack.
            weights: those that took the place of the stack's, see `rows.Row.weights`: where outputs
                are read off with the input embeddings, these are among them.
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
    """Opens a decoder by name or path.

    Code and pickles that lie beside a model are never run.

    Args:
        name: a folder with config.json, safetensors and tokenizer.json, or a name on the hub; see
            `backbone.resolve`.
        dtype: of the weights, float32 or bfloat16.
        quantized: keep those of the blocks' linear layers in 4 bits instead, for QLoRA.

    Raises:
        NotFound: no such folder or name.
        InvalidInput: what is there is no decoder, is incomplete, or fails a check of `check`.
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
    except Exception as error:  # whatever readers raise at files that are not what they seem
        raise _refused(name, "cannot be read") from error
    if found["missing_keys"] or found["mismatched_keys"]:
        raise _refused(name, "lacks some of its weights")
    if not getattr(tokenizer, "is_fast", False):
        raise _refused(name, "has no fast tokenizer")
    return assemble(public_name(name), hash_files([*weights, words]), model, tokenizer, folder)


def assemble(name: str, sha256: str, model: Any, tokenizer: Any, folder: Path) -> Decoder:
    """A decoder out of its parts, checked.

    Raises:
        InvalidInput: see `check`.
    """
    model = model.eval().requires_grad_(False)
    stack = model.get_decoder()
    if stack is model:  # GPT-2 and its like know no part of that name
        stack = model.base_model
    output = model.get_output_embeddings().weight
    tied = next((n for n, p in stack.named_parameters() if p is output), None)
    backbone = LoadedBackbone(name, sha256, stack, tokenizer, folder)
    decoder = Decoder(backbone, model, Chat.of(tokenizer), tied)
    check(decoder)
    return decoder


@torch.no_grad()
def check(decoder: Decoder) -> None:
    """Refuses a decoder that would not write what it was trained to.

    Raises:
        InvalidInput: the tokenizer does not give a sentence back, or has ids without embeddings;
            weights are no numbers; or its logits are not what `Decoder.logits` makes of the stack's
            states, as of families that do more between the two.
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
    """For what needs a decoder where there is none."""
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
"""Positions whose logits are in memory at once: with 262,144 tokens 134 MB."""

Missed = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class TextGenerator(AdaptedModel):
    """A decoder and what training adds to it.

    Full fine-tuning trains the stack; output weights change with it where they are the input
    embeddings, and stay as they are where they are not.

    Args:
        decoder: freshly loaded; the method is built into it, so it is spent.
        method: what is trained.
        vocabulary, width: of the reconstruction head, see `AdaptedModel`.
    """

    task: ClassVar[str] = "generation"

    def __init__(
        self, decoder: Decoder, method: Method, *, vocabulary: int = 0, width: int = 96
    ) -> None:
        super().__init__(decoder.stack, method, vocabulary, width)
        self.output = decoder.model.get_output_embeddings()
        self._decoder = decoder

    def states(self, ids: Tensor, attention: Tensor) -> Tensor:
        """Last hidden states: Int (B, n), Int (B, n) -> Float (B, n, h)."""
        return self.adapted(ids, attention)  # type: ignore[no-any-return]

    def missed(self, states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy of the tokens that follow, and whether each was the likeliest.

        Logits are made for these positions alone, some at a time: all of them would take gigabytes.
        What a position costs depends on its own state only, so its gradient is made with it and
        kept, a state's size, in the logits' place. Output weights that are trained take a share of
        every position's, so there logits are made again in the backward pass.

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
    """The same, where each loss depends on its own state and on nothing else that is trained."""

    def found(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        losses, hits = _WithGradients.apply(states, targets, missed)  # type: ignore[no-untyped-call]
        return losses, hits

    return found


class _WithGradients(torch.autograd.Function):
    """Makes each state's gradient together with its loss."""

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
