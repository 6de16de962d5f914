"""A private step: clip each example's gradient, sum, add noise once, divide by what was expected.

DP-SGD (Abadi et al., 2016, algorithm 1), on a soft prompt PromptDPSGD (Duan et al., 2023, algorithm
1). Three details carry the guarantee, and each has a test that breaks it: the clip is of one
example over everything trained together; the noise is drawn once for a step, however many pieces
the step is computed in; and the divisor is the *expected* number of examples, since the true one is
as secret as the examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import torch
from torch import Tensor

from sottovoce.cloud.private.randomness import normal
from sottovoce.core.privacy.gaussian import Stage
from sottovoce.core.privacy.noise import Random

__all__ = ["INSIDE", "clipped_sum", "noisy_mean"]

INSIDE: Final = 1 - 1e-6
"""Keeps rounding on the safe side of the clip."""

Gradients = Mapping[str, Tensor]
"""By name Float (B, ...): of every example alone."""


def clipped_sum(gradients: Gradients, clip: float) -> dict[str, Tensor]:
    """The sum of all examples' gradients, none longer than ``clip``: by name Float (...).

    The length is over all names together. An example whose gradient is no number counts as 0: that
    training goes on must not tell of it.
    """
    flat = {name: each.detach().float().flatten(1) for name, each in gradients.items()}  # (B, n)
    squares = [each.square().sum(1, dtype=torch.float64) for each in flat.values()]
    length = torch.stack(squares).sum(0).sqrt()  # (B,)
    scale = (clip * INSIDE / length.clamp_min(1e-30)).clamp_max(1.0)
    sound = torch.isfinite(length)
    scale = torch.where(sound, scale, 0.0).float()
    return {
        name: (scale @ each.where(sound[:, None], 0.0)).reshape(gradients[name].shape[1:])
        for name, each in flat.items()
    }


def noisy_mean(
    sums: Mapping[str, Tensor], stage: Stage, records: int, random: Random | None = None
) -> dict[str, Tensor]:
    """What a step follows: (sum + N(0, (noise clip)^2)) / (share records), by name.

    Noise is as fine as the sum: lower digits than it has would be told as they are.

    Args:
        sums: of clipped gradients.
        stage: says clip, noise and share.
        records: number of examples there are.
        random: for tests only.
    """
    expected = stage.share * records
    return {
        name: (each + (stage.noise * stage.clip * normal(each.shape, random)).to(each)) / expected
        for name, each in sums.items()
    }
