"""The private head learns, and no example moves a step by more than the clip."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.training.dp_sgd import trainer
from sottovoce.cloud.training.dp_sgd.accounting import PrivatePlan
from sottovoce.cloud.training.dp_sgd.trainer import HEAD, fit_head
from sottovoce.core.privacy.gaussian import Budget


def two_clouds(n: int = 4_000) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(n) % 2
    features = torch.randn(n, 16, generator=random)
    features[:, 0] += 3.0 * targets - 1.5
    return features / 4, targets


def test_it_learns_at_epsilon_1() -> None:
    features, targets = two_clouds()
    plan = PrivatePlan.within(Budget(1.0, 1e-5), len(features), head=HEAD)
    weight, bias = fit_head(features, targets, 2, plan.head)
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert hits.float().mean() > 0.9


def test_noise_alone_learns_nothing() -> None:
    features, targets = two_clouds()
    weight, bias = fit_head(features, targets, 2, replace(HEAD, noise=1e6))
    hits = (features @ weight.T + bias).argmax(1) == targets
    assert 0.1 < hits.float().mean() < 0.9


def test_what_a_step_sums_is_the_clipped_gradient_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """By autograd, one example at a time, at the first step."""
    features, targets = two_clouds(12)
    features[3] *= 100
    seen: list[Tensor] = []

    def caught(sums: dict[str, Tensor], *_: object) -> dict[str, Tensor]:
        seen.append(sums[""])
        return {"": torch.zeros_like(sums[""])}

    monkeypatch.setattr(trainer, "noisy_mean", caught)
    fit_head(features, targets, 3, replace(HEAD, steps=1))
    expected = torch.zeros(3, 17)
    for feature, target in zip(features, targets, strict=True):
        weight = torch.zeros(3, 17, requires_grad=True)
        logits = weight @ torch.cat([feature, torch.ones(1)])
        (alone,) = torch.autograd.grad(F.cross_entropy(logits[None], target[None]), weight)
        expected += alone * min(1.0, HEAD.clip / float(alone.norm()))
    assert torch.allclose(seen[0].float(), expected, atol=1e-5)


@pytest.mark.parametrize("n", [64, 30_000])
def test_one_example_more_moves_the_sum_by_at_most_the_clip(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many that pull the same way as well, whose sum float32 would round elsewhere."""
    features, targets = two_clouds(n)
    targets = torch.zeros_like(targets)
    features = features / 50 + features[0]
    features[-1] *= 1e4
    seen: list[Tensor] = []

    def caught(sums: dict[str, Tensor], *_: object) -> dict[str, Tensor]:
        seen.append(sums[""])
        return {"": torch.zeros_like(sums[""])}

    monkeypatch.setattr(trainer, "noisy_mean", caught)
    for last in (n - 1, n):
        fit_head(features[:last], targets[:last], 2, replace(HEAD, steps=1))
    assert 0 < float((seen[1].double() - seen[0].double()).norm()) <= HEAD.clip * (1 + 1e-7)


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_an_example_without_a_number_counts_as_nothing(wrong: float) -> None:
    features, targets = two_clouds(100)
    weights = []
    for spoilt in (0.0, wrong):
        features[3] = spoilt
        kept = slice(None) if spoilt else [at for at in range(100) if at != 3]
        weights.append(fit_head(features[kept], targets[kept], 2, replace(HEAD, noise=1e-12))[0])
    # Divided by one more: the rates differ by one in a hundred, and nothing else does.
    assert torch.nn.functional.cosine_similarity(*(w.flatten() for w in weights), dim=0) > 0.999
