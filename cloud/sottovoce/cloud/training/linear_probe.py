"""Fits the linear head on the frozen backbone's states before anything else is trained.

Why it is here: a random head sends large gradients into the adapter for its first epochs; a fitted
one does not, and a few epochs are enough.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

__all__ = ["probe"]


def probe(features: Tensor, targets: Tensor, penalty: float, labels: int) -> tuple[Tensor, Tensor]:
    """Logistic regression: (N, h), (N,) -> weight (C, h), bias (C,).

    Args:
        features: states.
        targets: places of labels.
        penalty: of the squared weights.
        labels: C; not every one need be among the targets.
    """
    centre, spread = features.mean(0), features.std(0) + 1e-6
    scaled = (features - centre) / spread
    weight = torch.zeros(labels, features.shape[1], requires_grad=True)
    bias = torch.zeros(weight.shape[0], requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(scaled @ weight.T + bias, targets)
        loss = loss + penalty * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        weight = weight / spread
        return weight, bias - weight @ centre
