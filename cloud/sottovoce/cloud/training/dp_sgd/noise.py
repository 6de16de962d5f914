"""A private step: clip each example's gradient, sum, add noise once, divide.

This is DP-SGD (Abadi et al., 2016, algorithm 1), and PromptDPSGD on a soft prompt (Duan et al.,
2023, algorithm 1). Three details carry the guarantee, and a test breaks each of them:

- The clip is of one example, over all trained parameters together.
- The noise is drawn once for a step, even if the step is computed in several pieces.
- The divisor is the *expected* number of examples, because the true number is as secret as the
  examples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from sottovoce.core.privacy import gaussian
from sottovoce.core.privacy.gaussian import Stage
from sottovoce.core.privacy.noise import Random, SecureRandom

__all__ = ["INSIDE", "clipped_sum", "noisy_mean", "normal", "sample"]


def normal(shape: tuple[int, ...], random: Random | None = None) -> Tensor:
    """Return independent numbers from N(0, 1), Float64 ``shape``.

    Args:
        shape: of the tensor.
        random: for tests only; by default the operating system's generator.
    """
    return torch.from_numpy(gaussian.normal(math.prod(shape), random)).reshape(shape)


def sample(n: int, share: float, random: Random | None = None) -> list[int]:
    """Return a step's examples: each of ``n`` independently, with probability ``share``.

    This is Poisson sampling, which the accountant assumes. The number of examples varies, and may
    be 0.
    """
    drawn = (random or SecureRandom()).random((n,))
    found: list[int] = np.flatnonzero(drawn < share).tolist()
    return found


INSIDE: Final = 1 - 1e-6
"""Factor that keeps rounding on the safe side of the clip."""

Gradients = Mapping[str, Tensor]
"""Gradients by name, Float (B, ...): one for each example."""


def clipped_sum(gradients: Gradients, clip: float) -> dict[str, Tensor]:
    """Return the sum of all examples' gradients, each clipped to ``clip``: by name Float (...).

    The length is over all names together. A gradient that is not finite counts as 0, because
    ending the training would reveal the example.
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
    """Return the step's direction (sum + N(0, (noise clip)^2)) / (share records), by name.

    The noise has the precision of the sum. Lower digits of the sum would stay without noise.

    Args:
        sums: of clipped gradients.
        stage: clip, noise and share.
        records: number of all examples.
        random: for tests only.
    """
    expected = stage.share * records
    return {
        name: (each + (stage.noise * stage.clip * normal(each.shape, random)).to(each)) / expected
        for name, each in sums.items()
    }
