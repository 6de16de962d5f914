"""What a private training run does and what it costs, made together from one budget.

Why it is here: sampler, clipping, noise, number of steps and accountant that are set apart can
disagree, and then what is claimed is not what ran. A `PrivatePlan` is fixed before any example is
looked at, the trainer follows it to the letter, and epsilon is computed from the very same numbers.

Two stages share a budget: a linear head by full-batch gradient descent, then, where more than the
head is trained, DP-SGD (Abadi et al., 2016) on Poisson samples. Both add Gaussian noise to a sum of
clipped gradients, so a step is fully described by the share of examples it sees and by the noise
multiplier. The accounting is dp-accounting's: closed form for steps on all examples, privacy loss
distributions where any are sampled; Gaussian DP's central limit, which reports too little for
those, is not used.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

import dp_accounting
from dp_accounting import pld

from sottovoce.core.privacy.gaussian import (
    RELATION,
    Budget,
    Stage,
    epsilon_of_whole,
    with_least_noise,
)

__all__ = ["ACCOUNTANT", "HEAD_SHARE", "PrivatePlan", "epsilon_of"]

ACCOUNTANT: Final = "dp-accounting, privacy loss distributions; Gaussian steps in closed form"
HEAD_SHARE: Final = 0.5
"""Of epsilon that the head may spend where more is trained after it: noise adds up in squares, so a
half costs what comes after it an eighth more noise."""


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """A run and its price.

    Attributes:
        records: number of examples; public.
        budget: what was asked for.
        head: of the linear head.
        tuning: of all that is trained, or None where that is the head alone.
    """

    records: int
    budget: Budget
    head: Stage
    tuning: Stage | None

    @classmethod
    def within(
        cls,
        budget: Budget,
        records: int,
        *,
        head: Stage,
        tuning: Stage | None = None,
        head_share: float = HEAD_SHARE,
    ) -> PrivatePlan:
        """The least noise that keeps to ``budget``.

        Args:
            budget: not exceeded.
            records: number of examples.
            head, tuning: as they are to be but for ``noise``, which is found here.
            head_share: of epsilon that the head may spend where there is ``tuning``.
        """
        alone = tuning is None
        share = budget.epsilon * (1 if alone else head_share)
        found = with_least_noise(
            lambda noise: (_with(head, noise),), Budget(share, budget.delta), epsilon_of
        )
        first = _with(head, found)
        if tuning is None:
            return cls(records, budget, first, None)
        stage = tuning
        rest = with_least_noise(lambda noise: (first, _with(stage, noise)), budget, epsilon_of)
        return cls(records, budget, first, _with(stage, rest))

    @property
    def epsilon(self) -> float:
        """What the run spends at the budget's delta, by its own numbers."""
        stages = (self.head,) if self.tuning is None else (self.head, self.tuning)
        return epsilon_of(stages, self.budget.delta)

    def to_dict(self) -> dict[str, Any]:
        """What ``adapter.json`` says to whoever gets the adapter."""
        return {
            "epsilon": self.epsilon,
            "delta": self.budget.delta,
            "unit": RELATION,
            "accountant": ACCOUNTANT,
            "public": ["labels", "number of examples"],
            **asdict(self),
        }


def _with(stage: Stage, noise: float) -> Stage:
    return Stage(stage.steps, stage.share, noise, stage.clip)


@lru_cache(maxsize=256)
def epsilon_of(stages: tuple[Stage, ...], delta: float) -> float:
    """What all steps of ``stages`` spend together."""
    # Steps on all examples are together one with less noise: exact, in closed form.
    whole = sum(stage.steps / stage.noise**2 for stage in stages if stage.share == 1)
    sampled = [stage for stage in stages if stage.share < 1]
    if not sampled:
        return epsilon_of_whole(stages, delta)
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3
    )
    if whole:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(whole)))
    for stage in sampled:
        accountant.compose(_event(stage))
    return float(accountant.get_epsilon(delta))


def _event(stage: Stage) -> dp_accounting.DpEvent:
    """What the accountant is told of a stage."""
    step = dp_accounting.PoissonSampledDpEvent(
        stage.share, dp_accounting.GaussianDpEvent(stage.noise)
    )
    return dp_accounting.SelfComposedDpEvent(step, stage.steps)
