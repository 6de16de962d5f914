"""The head starts where logistic regression puts it."""

from __future__ import annotations

import torch

from sottovoce.cloud.training.linear_probe import probe


def test_the_probe_is_the_logistic_regression_it_says() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0]])
    targets = torch.arange(300) % 3
    features = centres[targets] + torch.randn(300, 2, generator=random)
    weight, bias = probe(features, targets, 0.01)
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert hits.float().mean() > 0.95
    # A constant column carries nothing and must not break the scaling.
    weight, bias = probe(torch.cat([features, torch.ones(300, 1)], 1), targets, 0.01)
    assert bool(torch.isfinite(weight).all())
