"""Trains a head on the device alone, over the encoder that is there.

A device that holds all labels can learn from them without sending anything. Softmax regression on
the encoder's pooled states has one optimum and takes seconds. Nesterov's gradient method finds it,
with the step that the states' length allows. It needs no library and no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sottovoce.core.local.adapter import LocalAdapter
from sottovoce.core.local.encoder import Additions, Floats2d, Shape

__all__ = ["fit"]

_STEPS: Final = 400
_PENALTY: Final = 1e-3
"""The weight of the weights' squares beside the mean loss, over states of length 1."""


def fit(states: Floats2d, labels: Sequence[str], shape: Shape) -> LocalAdapter:
    """Train a head on states and their labels.

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
