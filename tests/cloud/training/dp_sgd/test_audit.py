"""An audit refutes training that cheats, and not training that keeps its promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Progress, TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.training.dp_sgd import trainer
from sottovoce.cloud.training.dp_sgd.accounting import PrivatePlan
from sottovoce.cloud.training.dp_sgd.audit import audit, bound, pulls, unlikeliest
from sottovoce.cloud.training.dp_sgd.trainer import HEAD, fit_head
from sottovoce.core.errors import InvalidInput
from sottovoce.core.privacy.gaussian import Budget, Stage
from tests.support.examples import examples

DELTA = 1e-5
LABELS = 3


def shown(stage: Stage, seed: int, length: float = 1.0) -> float:
    """Of a head that is trained with ``stage``: 400 examples, 128 canaries, 256 inputs."""
    random, torch_random = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    states = length * F.normalize(torch.randn(528, 256, generator=torch_random))
    targets = states[:, :LABELS].argmax(1)
    base, canaries = states[:400], states[400:]
    reference = fit_head(base, targets[:400], LABELS, replace(stage, noise=0.0))
    wrong = unlikeliest(canaries, *reference)
    planted = torch.from_numpy(random.random(128) < 0.5)
    found = fit_head(
        torch.cat([base, canaries[planted]]),
        torch.cat([targets[:400], wrong[planted]]),
        LABELS,
        stage,
        random,
    )
    weight, bias = (one - other for one, other in zip(found, reference, strict=True))
    return bound(pulls(canaries, wrong, weight, bias).numpy(), planted.numpy(), DELTA).epsilon


def planned(epsilon: float) -> Stage:
    return PrivatePlan.within(Budget(epsilon, DELTA), 464, head=HEAD).head


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
@pytest.mark.parametrize("length", [1.0, 10.0])
def test_what_keeps_its_promise_is_not_refuted(epsilon: float, length: float) -> None:
    # Each with probability 5 % at most; the median of five with 1.2e-3.
    assert np.median([shown(planned(epsilon), seed, length) for seed in range(5)]) <= epsilon


@pytest.mark.parametrize(
    ("broken", "length"),
    [
        (lambda stage: replace(stage, noise=0.0), 1.0),
        (lambda stage: replace(stage, noise=stage.noise / 10), 1.0),
        (lambda stage: replace(stage, noise=0.0, clip=1e9), 1.0),
        # The noise as it should be, and nothing clipped.
        (lambda stage: replace(stage, noise=stage.noise * stage.clip / 1e9, clip=1e9), 10.0),
    ],
    ids=["no noise", "a tenth of the noise", "no clip and no noise", "no clip"],
)
def test_what_cheats_is_refuted(broken: Callable[[Stage], Stage], length: float) -> None:
    found = [shown(broken(planned(1.0)), seed, length) for seed in range(5)]
    assert np.median(found) > 1.0


@pytest.mark.parametrize("method", ["head", "lora"])
def test_an_audit_trains_with_coins_and_refutes_nothing_true(method: str, bert: str) -> None:
    steps: list[Progress] = []
    options = TrainingOptions(method=method, dp_epsilon=4.0, epochs=1)
    found = audit(
        examples(160), options, partial(backbone.load, bert), canaries=60, on_progress=steps.append
    )
    assert found.holds
    assert 3.8 < found.claimed <= 4.0
    assert found.delta == 1e-5
    assert found.shown.canaries == 60
    assert steps[-1].step == steps[-1].steps


def test_an_audit_refutes_a_trainer_without_noise(
    bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*given: Any) -> Any:
        *rest, stage = given
        return fit_head(*rest, replace(stage, noise=0.0))

    monkeypatch.setattr(trainer, "fit_head", silent)
    options = TrainingOptions(method="head", dp_epsilon=0.1)
    refuted = 0
    for seed in range(4):
        random = np.random.default_rng(seed)
        found = audit(
            examples(100), options, partial(backbone.load, bert), canaries=50, random=random
        )
        refuted += not found.holds
    # A trainer that keeps its promise is refuted with probability 5 % at most, twice in four with
    # 1.4 %. (Without noise nothing else is drawn: the same every time.)
    assert refuted >= 2


@pytest.mark.parametrize(
    ("options", "canaries", "what"),
    [
        (TrainingOptions(method="head"), 16, "claims nothing"),
        (TrainingOptions(method="head", dp_epsilon=1.0, pate=True), 16, "votes of teachers"),
        (TrainingOptions(method="head", dp_epsilon=1.0), 15, "canaries among"),
        (TrainingOptions(method="head", dp_epsilon=1.0), 21, "canaries among"),
    ],
)
def test_an_audit_that_could_show_nothing_is_refused(
    options: TrainingOptions, canaries: int, what: str, bert: str
) -> None:
    with pytest.raises(InvalidInput, match=what):
        audit(examples(40), options, partial(backbone.load, bert), canaries=canaries)
