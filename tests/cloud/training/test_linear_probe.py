"""The head starts where logistic regression puts it."""

from __future__ import annotations

import torch

from sottovoce.cloud.training.trainer import probe


def test_the_probe_is_the_logistic_regression_it_says() -> None:
    random = torch.Generator().manual_seed(0)
    centres = torch.tensor([[3.0, 0.0], [-3.0, 0.0], [0.0, 4.0]])
    targets = torch.arange(300) % 3
    features = centres[targets] + torch.randn(300, 2, generator=random)
    weight, bias = probe(features, targets, 0.01, 3)
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert hits.float().mean() > 0.95
    # A constant column carries nothing and must not break the scaling.
    weight, bias = probe(torch.cat([features, torch.ones(300, 1)], 1), targets, 0.01, 3)
    assert bool(torch.isfinite(weight).all())


def test_a_label_that_no_example_has_is_an_outcome_all_the_same() -> None:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(60) % 2
    weight, bias = probe(torch.randn(60, 3, generator=random), targets, 0.01, 4)
    assert (weight.shape, bias.shape) == ((4, 3), (4,))
    assert int(bias.topk(2).indices.max()) == 1
