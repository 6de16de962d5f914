"""The training methods, under the names that the wire, the tenants and the files use.

    lora     low-rank updates in the attention projections: W + (alpha / rank) B A
    qlora    LoRA over the frozen backbone in 4 bits (needs bitsandbytes)
    prompt   virtual token embeddings before the text (Lester et al.)
    prefix   virtual keys and values before every attention layer's (Li and Liang)
    full     every weight of the backbone
    head     the linear head alone

A job that cannot run here is refused before its examples are uploaded.
"""

from __future__ import annotations

from typing import Any, Final

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models.backbone import LoadedBackbone, check_decoder
from sottovoce.cloud.models.batches import SUBTOKENS
from sottovoce.cloud.models.methods.interface import AdaptedEncoder, Full, Head, Method
from sottovoce.cloud.models.methods.lora import Lora
from sottovoce.cloud.models.methods.prompt import Prefix, Prompt
from sottovoce.core.bundle.encoder import MAX_TOKENS
from sottovoce.core.errors import InvalidInput

__all__ = [
    "METHODS",
    "AdaptedEncoder",
    "Full",
    "Head",
    "Lora",
    "Method",
    "Prefix",
    "Prompt",
    "check",
    "from_dict",
    "from_options",
    "to_dict",
]

METHODS: Final[dict[str, type[Method]]] = {
    "lora": Lora,
    "qlora": Lora,
    "prompt": Prompt,
    "prefix": Prefix,
    "full": Full,
    "head": Head,
}
"""Files use the first of several names."""

_WRITTEN: Final = 128
"""Positions needed for input and output of generation; longer inputs are cut."""


def from_options(options: TrainingOptions) -> Method:
    """Return the method of a tenant's options; zeros take its defaults."""
    return METHODS[options.method].from_options(options)


def check(options: TrainingOptions, backbone: LoadedBackbone) -> None:
    """Refuse options that would fail after the upload.

    Raises:
        InvalidInput: label words lack a decoder, or virtual tokens exceed the backbone's
            positions.
        NotReady: this machine cannot run the method.
    """
    method = from_options(options)
    method.check_available()
    if options.label_words:
        check_decoder(backbone)
    text = (_WRITTEN if options.writes else MAX_TOKENS) + SUBTOKENS * options.plain_tokens
    needed = max(method.virtual_tokens, method.front + text)
    positions = backbone.positions
    if positions is not None and needed > positions:
        field = "virtual_tokens" if method.virtual_tokens else "plain_tokens"
        most = max(0, positions - (text if method.front else 0))
        raise InvalidInput(
            f"the backbone has {positions} positions, and this takes {needed}",
            fix=f"give at most {most} virtual tokens"
            if method.virtual_tokens and most
            else "give fewer plain tokens",
            subject=f"training.{field}",
        )


def to_dict(method: Method) -> dict[str, Any]:
    """Return the JSON form of the method for an adapter's description."""
    name = next(name for name, kind in METHODS.items() if kind is type(method))
    return {"method": name, name: method.to_dict()}


def from_dict(facts: dict[str, Any]) -> Method:
    """Return the method from its JSON form.

    Raises:
        KeyError, TypeError, ValueError: ``facts`` are not from `to_dict`.
    """
    name = facts["method"]
    return METHODS[name].from_dict(facts[name])
