"""Adapters as devices run them, out of the folders that training leaves.

Why it is here: a `Row` is all that an adapter brings into a pass, whatever its method, and a device
takes the same rows as inputs of its graph; so a method that is added travels without a change here,
unless it brings weights of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.models.methods.lora_rows import LoraUpdates
from sottovoce.cloud.models.virtual_tokens import prefix_width
from sottovoce.core.errors import NotReady
from sottovoce.core.local.adapter import LocalAdapter
from sottovoce.core.local.encoder import Additions

__all__ = ["to_local"]


def to_local(folder: Path, encoder: Any) -> LocalAdapter:
    """The adapter in ``folder``.

    Args:
        folder: what training wrote.
        encoder: the part of the backbone that reads text; only its shapes are looked at.

    Raises:
        DataLoss: it is damaged.
        NotReady: devices cannot run it: it writes text, scores words of labels, or has weights in
            the place of the backbone's.
    """
    adapter = adapters.load(folder)
    if adapter.weight is None or adapter.bias is None:
        raise _stays("it answers with a model that writes")
    row = adapter.method.row(encoder, adapter.tensors)
    if row.weights is not None:
        raise _stays("full fine-tuning made a backbone of its own")
    updates = row.updates
    if not isinstance(updates, LoraUpdates | None):
        raise _stays("its method updates layers as no device does")
    width = encoder.config.hidden_size
    packed = updates.packed if updates else None
    return LocalAdapter(
        labels=adapter.labels,
        backbone_sha256=adapter.backbone_sha256,
        layers=tuple(name for name, *_ in updates.layers) if updates else (),
        additions=Additions(
            _rows(row.prompt, width),
            _rows(row.prefix, prefix_width(encoder.config)),
            _rows(packed, _lora_width(encoder)),
        ),
        weight=adapter.weight.numpy(),
        bias=adapter.bias.numpy(),
    )


def _lora_width(encoder: Any) -> int:
    layers = (encoder.get_submodule(name) for name in targets(encoder, False))
    return sum(layer.in_features + layer.out_features for layer in layers)


def _rows(found: Tensor | None, width: int) -> NDArray[np.float32]:
    return np.zeros((0, width), np.float32) if found is None else found.float().numpy()


def _stays(why: str) -> NotReady:
    return NotReady(
        f"this adapter cannot be run on devices: {why}",
        fix="have the cloud answer with --where cloud, or customise again with --method lora",
        subject="adapter",
    )
