"""A private linear head on the frozen backbone's states, by full-batch gradient descent.

Why it is here: where data are many this alone costs hardly any accuracy at epsilon 3, and DP-SGD on
an adapter starts from where it ends. Features do not change, so every example's gradient is known
in closed form, (softmax(W x) - e_y) x^T, its length is the product of two lengths, and fifty steps
over ten thousand examples take a second.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.private.steps import INSIDE, noisy_mean
from sottovoce.core.privacy.gaussian import Stage
from sottovoce.core.privacy.noise import Random

__all__ = ["HEAD", "fit_head"]

HEAD: Final = Stage(steps=50, share=1.0, noise=0.0, clip=0.5)
"""What is done, but for the noise, which the budget decides."""

_RATE: Final = 15.0
_MOMENTUM: Final = 0.9

_ROWS: Final = 8192
"""Examples summed at once: with many labels their errors take more memory than they do."""


def fit_head(
    features: Tensor, targets: Tensor, labels: int, stage: Stage, random: Random | None = None
) -> tuple[Tensor, Tensor]:
    """Softmax regression: (N, h), (N,) -> weight (C, h), bias (C,).

    Args:
        features: states over their typical length.
        targets: places of the labels.
        labels: C; public.
        stage: of full batches.
        random: for tests only.
    """
    ones = features.new_ones(len(features), 1)
    inputs = torch.cat([features, ones], 1)  # (N, h + 1)
    lengths = inputs.norm(dim=1)  # no number where the states are none, and then it counts as 0
    inputs = inputs.nan_to_num_(0.0, 0.0, 0.0)
    weight = inputs.new_zeros(labels, inputs.shape[1])
    moving = torch.zeros_like(weight)
    for _ in range(stage.steps):
        # In float64: of many thousand, float32 would round by more than a part in a thousand of
        # the clip, and elsewhere with one example more.
        summed = torch.zeros_like(weight, dtype=torch.float64)
        for start in range(0, len(inputs), _ROWS):
            part, length, target = (
                each[start : start + _ROWS] for each in (inputs, lengths, targets)
            )
            errors = torch.softmax(part @ weight.T, 1) - F.one_hot(target, labels).to(part)
            pull = errors.norm(dim=1) * length
            sound = torch.isfinite(pull)[:, None]
            scale = (stage.clip * INSIDE / pull.clamp_min(1e-30)).clamp_max(1.0)[:, None]
            clipped = torch.where(sound, errors * scale, 0.0)
            summed += clipped.double().T @ part.double()
        step = noisy_mean({"": summed}, stage, len(inputs), random)[""].to(weight)
        moving = _MOMENTUM * moving + step
        weight = weight - _RATE * moving
    return weight[:, :-1], weight[:, -1]
