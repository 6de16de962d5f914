"""The methods an adapter can be trained with, and what each of them adds to the backbone.

    lora     low-rank updates in the attention projections: W + (alpha / rank) B A
    qlora    the same, the frozen backbone in 4 bits (needs a GPU and bitsandbytes)
    prompt   virtual token embeddings before the text (Lester et al.)
    prefix   virtual keys and values before every attention layer's (Li and Liang)
    full     every weight of the backbone

Why it is here: trainer, server and files must agree on them, and a job that cannot run here is
refused before anything is uploaded.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Final

import torch

from sottovoce.cloud.job import Method, TrainingOptions
from sottovoce.cloud.models import label_words
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import MAX_TOKENS, SUBTOKENS
from sottovoce.core.errors import InvalidInput, NotReady

__all__ = [
    "Full",
    "Lora",
    "MethodConfig",
    "Prefix",
    "Prompt",
    "check",
    "check_available",
    "from_dict",
    "from_options",
    "to_dict",
]


@dataclass(frozen=True, slots=True)
class Lora:
    """Rank and scale of the low-rank updates; ``quantized`` for QLoRA."""

    rank: int = 8
    alpha: int = 16
    feed_forward: bool = False
    quantized: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """Length of the prompt."""

    tokens: int = 20


@dataclass(frozen=True, slots=True)
class Prefix:
    """Length of the prefix."""

    tokens: int = 10


@dataclass(frozen=True, slots=True)
class Full:
    """Nothing to choose."""


MethodConfig = Lora | Prompt | Prefix | Full

_KINDS: Final[dict[str, type[MethodConfig]]] = {
    "lora": Lora,
    "prompt": Prompt,
    "prefix": Prefix,
    "full": Full,
}


def from_options(options: TrainingOptions) -> MethodConfig:
    """The method a tenant chose; zeros take the defaults here."""
    if options.method in (Method.LORA, Method.QLORA):
        rank = options.rank or Lora().rank
        return Lora(rank=rank, alpha=2 * rank, quantized=options.method == Method.QLORA)
    if options.method == Method.PROMPT:
        return Prompt(options.virtual_tokens or Prompt().tokens)
    if options.method == Method.PREFIX:
        return Prefix(options.virtual_tokens or Prefix().tokens)
    return Full()


def check(options: TrainingOptions, backbone: LoadedBackbone) -> None:
    """Refuses what would fail once all is uploaded.

    Raises:
        InvalidInput: label words without a decoder, or more in front of a text than the backbone
            has positions for.
        NotReady: see `check_available`.
    """
    check_available(options.method)
    if options.label_words:
        label_words.check(backbone)
    method = from_options(options)
    virtual = method.tokens if isinstance(method, Prompt | Prefix) else 0
    text = MAX_TOKENS + SUBTOKENS * options.plain_tokens
    # A prefix has no positions beside the text's, but begins as the states of as many tokens.
    needed = max(virtual, text) if isinstance(method, Prefix) else virtual + text
    positions = backbone.positions
    if positions is not None and needed > positions:
        field = "virtual_tokens" if virtual else "plain_tokens"
        most = max(0, positions - (text if isinstance(method, Prompt) else 0))
        raise InvalidInput(
            f"the backbone has {positions} positions, and this takes {needed}",
            fix=f"give at most {most} virtual tokens"
            if virtual and most
            else "give fewer plain tokens",
            subject=f"training.{field}",
        )


def check_available(method: Method) -> None:
    """Refuses a method this machine cannot run.

    Raises:
        NotReady: QLoRA without a GPU or without bitsandbytes.
    """
    if method != Method.QLORA:
        return
    if not torch.cuda.is_available():
        raise NotReady(
            "this cloud has no GPU, which QLoRA needs",
            fix="train with the method lora: it gives the same kind of adapter",
            subject="training.method",
        )
    if find_spec("bitsandbytes") is None:
        raise NotReady(
            "this cloud lacks bitsandbytes, which QLoRA needs",
            fix="ask the provider for `pip install bitsandbytes`, or train with the method lora",
            subject="training.method",
        )


def to_dict(method: MethodConfig) -> dict[str, Any]:
    """The method as an adapter's description holds it; `read` turns it back."""
    name = next(name for name, kind in _KINDS.items() if isinstance(method, kind))
    return {"method": name, name: asdict(method)}


def from_dict(facts: dict[str, Any]) -> MethodConfig:
    """The method out of an adapter's description.

    Raises:
        KeyError, TypeError: it was not written by `to_dict`.
    """
    name = facts["method"]
    given = {**facts[name]}
    given.pop("dropout", None)  # adapters trained before it was taken out
    return _KINDS[name](**given)
