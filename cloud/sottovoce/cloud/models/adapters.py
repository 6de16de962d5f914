"""Adapters on disk: contents of the folder, saving, loading, and conversion for devices.

adapter_model.safetensors   the method's parameters under PEFT's names; for full fine-tuning
                            the backbone's weights under their names
head.safetensors            weight (C, h) and bias (C,); missing if label words are scored
                            with the backbone's weights, or if the adapter writes text
adapter.json                task, method, labels, backbone, bundle, release settings, versions,
                            hashes of the two other files
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from sottovoce.cloud.models.backbone import LabelWords, LoadedBackbone
from sottovoce.cloud.models.classifier import AdaptedModel
from sottovoce.cloud.models.methods import Method, from_dict, to_dict
from sottovoce.cloud.models.methods.lora import LoraUpdates, targets
from sottovoce.cloud.models.rows import prefix_width
from sottovoce.core.bundle.adapter import LocalAdapter
from sottovoce.core.bundle.encoder import Additions
from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.errors import DataLoss, NotReady, SottovoceError
from sottovoce.core.platform.files import full_disk_is_unavailable, in_place_of

FORMAT = "sottovoce.adapter.v1"
_WEIGHTS, _HEAD, _FACTS = "adapter_model.safetensors", "head.safetensors", "adapter.json"


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter in memory.

    Attributes:
        labels: in the order of the outputs; empty for generation.
        tensors: the method's parameters, under the names of `AdaptedEncoder.tensors`.
        weight, bias: of the head, Float (C, h) and (C,); None for label words and generation.
        origin: bundle, release settings and training settings.
        task: "classification" or "generation".
    """

    labels: tuple[str, ...]
    method: Method
    tensors: dict[str, Tensor]
    weight: Tensor | None
    bias: Tensor | None
    words: LabelWords | None
    backbone_sha256: str
    origin: dict[str, Any]
    task: str = "classification"


def fingerprint(labels: Sequence[str], *facts: Any) -> str:
    """Return the name of a run; only this run continues from its checkpoint."""
    return hashlib.sha256(repr((tuple(labels), *facts)).encode()).hexdigest()


def save(
    folder: Path,
    model: AdaptedModel,
    labels: Sequence[str],
    backbone: LoadedBackbone,
    origin: dict[str, Any],
    words: LabelWords | None = None,
) -> None:
    """Write the adapter to ``folder``, replacing an existing one.

    The folder holds the method's parameters and the head. It holds nothing else of the backbone,
    and no reconstruction head. The parent of ``folder`` must exist.

    Raises:
        SottovoceError: the method returned other tensors than the trained ones.
        Unavailable: the disk is full.
    """
    tensors = model.adapted.tensors()
    trained = [p for p in model.adapted.parameters() if p.requires_grad]
    # PEFT returns {} silently if it does not find the adapter.
    found, wanted = ({t.data_ptr() for t in some} for some in (tensors.values(), trained))
    if found != wanted or bool(found) == model.method.head_alone:
        raise SottovoceError("the adapter could not be taken out of the model")
    facts = {
        "format": FORMAT,
        "task": model.task,
        **to_dict(model.method),
        "labels": list(labels),
        "label_words": words.described() if words else None,
        "backbone": {"name": backbone.name, "sha256": backbone.sha256},
        "origin": origin,
        "versions": {name: version(name) for name in ("sottovoce-cloud", "torch", "peft")},
    }
    with full_disk_is_unavailable():
        _place(folder, model, tensors, facts)


def _place(
    folder: Path, model: AdaptedModel, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    with in_place_of(folder) as aside:
        aside.mkdir()  # no parents: a worker that slept must not make what a purge removed
        _write(aside / _WEIGHTS, tensors)
        if head := model.head_tensors():
            _write(aside / _HEAD, head)
        facts["sha256"] = {file.name: sha256(file) for file in sorted(aside.iterdir())}
        (aside / _FACTS).write_text(json.dumps(facts, indent=1, sort_keys=True) + "\n")
        shutil.rmtree(folder, ignore_errors=True)


def _write(file: Path, tensors: dict[str, Tensor]) -> None:
    save_file({n: t.detach().float().cpu().contiguous() for n, t in tensors.items()}, file)


def load(folder: Path) -> Adapter:
    """Read an adapter.

    Raises:
        DataLoss: a file is missing or damaged.
    """
    try:
        facts = json.loads((folder / _FACTS).read_bytes())
        if any(sha256(folder / name) != kept for name, kept in facts["sha256"].items()):
            raise ValueError("altered")
        words, task = facts["label_words"], facts["task"]
        headed = words is None and task == "classification"
        head = load_file(folder / _HEAD) if headed else {}
        return Adapter(
            labels=tuple(facts["labels"]),
            method=from_dict(facts),
            tensors=load_file(folder / _WEIGHTS),
            weight=head["weight"] if headed else None,
            bias=head["bias"] if headed else None,
            words=LabelWords.read(words) if words is not None else None,
            backbone_sha256=facts["backbone"]["sha256"],
            origin=dict(facts["origin"]),
            task=str(task),
        )
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataLoss(
            "the adapter's files are damaged",
            fix="customise again under the same name",
            subject="adapter",
        ) from error


def to_local(folder: Path, encoder: Any) -> LocalAdapter:
    """Return the adapter in ``folder`` in the form that devices run.

    Args:
        folder: as written by training.
        encoder: the part of the backbone that reads text; only its shapes are used.

    Raises:
        DataLoss: the adapter is damaged.
        NotReady: devices cannot run it: it writes text, scores label words, or replaces the
            backbone's weights.
    """
    adapter = load(folder)
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
    layers = (encoder.get_submodule(name) for name in targets(encoder, False))
    lora_width = sum(layer.in_features + layer.out_features for layer in layers)
    return LocalAdapter(
        labels=adapter.labels,
        backbone_sha256=adapter.backbone_sha256,
        layers=tuple(name for name, *_ in updates.layers) if updates else (),
        additions=Additions(
            _rows(row.prompt, width),
            _rows(row.prefix, prefix_width(encoder.config)),
            _rows(packed, lora_width),
        ),
        weight=adapter.weight.numpy(),
        bias=adapter.bias.numpy(),
    )


def _rows(found: Tensor | None, width: int) -> NDArray[np.float32]:
    return np.zeros((0, width), np.float32) if found is None else found.float().numpy()


def _stays(why: str) -> NotReady:
    return NotReady(
        f"this adapter cannot be run on devices: {why}",
        fix="have the cloud answer with --where cloud, or customise again with --method lora",
        subject="adapter",
    )
