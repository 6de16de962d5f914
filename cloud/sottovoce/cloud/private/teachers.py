"""Teachers of PATE on the frozen backbone: a linear head on each share of the examples.

Why it is here: what they vote on, and what a vote tells, is `sottovoce.core.privacy.votes`'; what
they see must be a function of their own share and of public texts alone.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

__all__ = ["fit_teacher", "standardised"]

_PENALTY: Final = 1.0
"""Of a teacher's ridge regression, its inputs being of length 1 or so."""


def standardised(features: Tensor, public: Tensor) -> Tensor:
    """States as teachers see them, with a 1 at the end: (N, h) -> (N, h + 1), of length 1 or so.

    Args:
        features: of a share, or of the public texts.
        public: of the public texts, which alone say where the middle is, Float (Q, h).
    """
    scaled = (features - public.mean(0)) / (public.std(0) + 1e-6) / public.shape[1] ** 0.5
    return torch.cat([scaled, scaled.new_ones(len(scaled), 1)], 1)


def fit_teacher(features: Tensor, targets: Tensor, labels: int) -> Tensor:
    """Ridge regression on one share, in closed form: (n, h), (n,) -> weight (h, C)."""
    wanted = torch.nn.functional.one_hot(targets, labels).to(features) - 1 / labels
    products = features @ features.T + _PENALTY * torch.eye(len(features)).to(features)
    weight: Tensor = features.T @ torch.linalg.solve(products, wanted)
    return weight
