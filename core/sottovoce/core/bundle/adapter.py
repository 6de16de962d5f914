"""The adapters of a device: the file that it downloads, and a head that it trains itself.

A device must not depend on how the cloud trained an adapter. Low-rank updates, prompts and prefixes
are stored as the rows that `Encoder` takes as inputs, beside the head. The file holds no code, and
any reader of safetensors opens it. The cloud writes it with this module and the device reads it
with the same.

A device that holds all labels can learn from them without sending anything, see `fit`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sottovoce.core.bundle.encoder import Additions, Encoder, Floats2d, Shape
from sottovoce.core.errors import BundleMismatch, DataLoss, Remedy
from sottovoce.core.platform.schema import decode, parse, parse_object
from sottovoce.core.rpc.limits import LARGEST_ADAPTER, MOST_LABELS

FORMAT: Final = "sottovoce.local-adapter.v1"

Floats1d = NDArray[np.float32]

_ADDED: Final = ("prompt", "prefix", "lora")


@dataclass(frozen=True, slots=True)
class _Facts:
    """The file's metadata beside its numbers; labels and layers are lists in JSON."""

    labels: str
    layers: str
    backbone_sha256: str


@dataclass(frozen=True, slots=True, eq=False)
class LocalAdapter:
    """An adapter that a device can run.

    Attributes:
        labels: as they were uploaded, in the order of the scores.
        backbone_sha256: of the backbone it was trained over.
        layers: names of the layers that ``additions.lora`` updates, in its order.
        additions: what it adds to a pass.
        weight, bias: of the head, Float (labels, width) and (labels,).
    """

    labels: tuple[str, ...]
    backbone_sha256: str
    layers: tuple[str, ...]
    additions: Additions
    weight: Floats2d
    bias: Floats1d

    def to_bytes(self) -> bytes:
        """Return the file's bytes; equal adapters give equal bytes, so a download can resume."""
        facts = {
            "format": FORMAT,
            "labels": json.dumps(self.labels),
            "layers": json.dumps(self.layers),
            "backbone_sha256": self.backbone_sha256,
        }
        tensors = {name: getattr(self.additions, name) for name in _ADDED}
        tensors |= {"weight": self.weight, "bias": self.bias}
        # Its metadata would come in any order: one entry has but one.
        return save(
            {name: np.ascontiguousarray(found) for name, found in tensors.items()},
            {"sottovoce": json.dumps(facts, sort_keys=True)},
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read the bytes that `to_bytes` returned.

        Raises:
            DataLoss: missing, damaged, too large or something else.
            BundleMismatch: of another format.
        """
        try:
            if file.stat().st_size > LARGEST_ADAPTER:
                raise ValueError("too large")
            with safe_open(file, "np") as opened:
                form, raw = parse_object((opened.metadata() or {})["sottovoce"])
                if form != FORMAT:
                    raise BundleMismatch(
                        f"the adapter has another format than {FORMAT!r}",
                        fix="update sottovoce-edge",
                        subject="adapter",
                    )
                facts = decode(_Facts, raw)
                found = {name: _floats(opened.get_tensor(name)) for name in opened.keys()}  # noqa: SIM118 - no dict
            labels, layers = (
                decode(tuple[str, ...], parse(each), name)
                for name, each in (("labels", facts.labels), ("layers", facts.layers))
            )
            weight, bias = found["weight"], found["bias"]
            named = 0 < len(labels) <= MOST_LABELS and len(set(labels)) == len(labels)
            heads = weight.ndim == 2 and bias.shape == weight.shape[:1] == (len(labels),)
            if not named or not heads or any(found[name].ndim != 2 for name in _ADDED):
                raise ValueError("shapes")
            additions = Additions(*(found[name] for name in _ADDED))
            return cls(labels, facts.backbone_sha256, layers, additions, weight, bias)
        except (
            OSError,
            SafetensorError,
            ValueError,
            KeyError,
            TypeError,
        ) as error:
            raise DataLoss(
                f"the adapter's file {file.name} is missing or was altered",
                fix=Remedy.RESTORE_ADAPTER,
                subject="adapter",
            ) from error

    @property
    def nbytes(self) -> int:
        """The bytes that its numbers take in memory."""
        added = (getattr(self.additions, name) for name in _ADDED)
        return sum(found.nbytes for found in (*added, self.weight, self.bias))

    def check_backbone(self, sha256: str) -> None:
        """Refuse to run over another backbone.

        Raises:
            BundleMismatch: it was trained over another.
        """
        if self.backbone_sha256 != sha256:
            raise _misfit()

    def check(self, shape: Shape) -> None:
        """Refuse to run over an encoder of another ``shape``.

        Raises:
            BundleMismatch: it was trained over another backbone, or updates other layers.
        """
        self.check_backbone(shape.backbone_sha256)
        given, wanted = self.additions, Additions.none(shape)
        # The cloud states the width of prefixes also where the encoder takes none.
        same = all(
            getattr(given, name).shape[1:] == getattr(wanted, name).shape[1:]
            for name in _ADDED
            if len(given.prefix) or shape.prefix or name != "prefix"
        )
        names = tuple(layer.name for layer in shape.layers)
        if (
            not same
            or self.weight.shape[1] != shape.width
            or (len(given.lora) and self.layers != names)
            or len(given.prompt) + shape.longest > shape.positions
        ):
            raise _misfit()

    def scores(self, encoder: Encoder, text: str) -> list[tuple[str, float]]:
        """Return all labels with their probabilities, most probable first.

        Args:
            encoder: it passed `check` with.
            text: in the clear.

        Raises:
            DataLoss: its numbers are so large that they give no score.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            logits = self.weight @ encoder.pooled(text, self.additions) + self.bias
        if not np.isfinite(logits).all():
            raise DataLoss(
                "the adapter's numbers give no score",
                fix=Remedy.REPLACE_ADAPTER,
                subject="adapter",
            )
        shares = np.exp(logits - logits.max())
        shares /= shares.sum()
        order = np.argsort(-shares, kind="stable")
        return [(self.labels[place], float(shares[place])) for place in order]


def _misfit() -> BundleMismatch:
    return BundleMismatch(
        "the adapter does not fit the bundle or the encoder on this device",
        fix="pull the bundle it was trained with, or customise again",
        subject="adapter",
    )


def _floats(tensor: Any) -> NDArray[np.float32]:
    if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
        raise ValueError("not numbers")
    found: NDArray[np.float32] = tensor
    return found


_STEPS: Final = 400
_PENALTY: Final = 1e-3
"""The weight of the weights' squares beside the mean loss, over states of length 1."""


def fit(states: Floats2d, labels: Sequence[str], shape: Shape) -> LocalAdapter:
    """Train a head on states and their labels, without any adapter below it.

    Softmax regression on the encoder's pooled states has one optimum and takes seconds. Nesterov's
    gradient method finds it, with the step that the states' length allows. It needs no randomness.

    Args:
        states: Floats2d (n, width), what the encoder pools of each text under no adapter.
        labels: one for each, two different ones at least.
        shape: of the encoder.
    """
    names = sorted(set(labels))
    number = {name: place for place, name in enumerate(names)}
    wanted = np.arange(len(labels)), np.array([number[label] for label in labels])
    lengths = np.linalg.norm(states, axis=1)
    size = float(lengths.mean()) or 1.0
    inputs = np.ones((len(states), states.shape[1] + 1), np.float32)
    np.divide(states, size, out=inputs[:, :-1])
    step = 1 / ((1 + float(lengths.max() / size) ** 2) / 2 + _PENALTY)
    weights = ahead = np.zeros((inputs.shape[1], len(names)), np.float32)
    misses = np.empty((len(inputs), len(names)), np.float32)  # the largest of all, made once
    pace = 1.0
    for _ in range(_STEPS):
        np.matmul(inputs, ahead, out=misses)
        misses -= misses.max(axis=1, keepdims=True)
        np.exp(misses, out=misses)
        misses /= misses.sum(axis=1, keepdims=True)
        misses[wanted] -= 1
        slope = inputs.T @ misses / len(inputs)
        slope[:-1] += _PENALTY * ahead[:-1]
        moved = ahead - step * slope
        faster = (1 + (1 + 4 * pace * pace) ** 0.5) / 2
        ahead = moved + (pace - 1) / faster * (moved - weights)
        weights, pace = moved, faster
    return LocalAdapter(
        labels=tuple(names),
        backbone_sha256=shape.backbone_sha256,
        layers=(),
        additions=Additions.none(shape),
        weight=(weights[:-1] / size).T.astype(np.float32),
        bias=weights[-1],
    )
