"""What a teacher learns of its share."""

from __future__ import annotations

import torch

from sottovoce.cloud.training.pate_trainer import fit_teacher


def test_a_teacher_learns_its_share() -> None:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(60) % 2
    features = torch.randn(60, 5, generator=random) + 2.0 * targets[:, None]
    weight = fit_teacher(torch.cat([features, torch.ones(60, 1)], 1), targets, 3)
    assert weight.shape == (6, 3)
    hits = (torch.cat([features, torch.ones(60, 1)], 1) @ weight).argmax(1) == targets
    assert hits.float().mean() > 0.9
