"""The plan of a private training run and its privacy cost, made together from one budget.

If sampler, clipping, noise, number of steps and accountant were set apart, the claim could differ
from the run. A `PrivatePlan` is fixed before any example is looked at, and the trainer follows it
exactly. Epsilon is computed from the same numbers.

Two stages share a budget. The first is a linear head by full-batch gradient descent. If more than
the head is trained, DP-SGD (Abadi et al., 2016) on Poisson samples follows. Both add Gaussian noise
to a sum of clipped gradients. So a step is fully described by its sampling rate and its noise
multiplier. dp-accounting does the accounting: in closed form for steps on all examples, with
privacy loss distributions for sampled steps. Gaussian DP's central limit is not used, because it
reports too little for sampled steps.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

from sottovoce.core.privacy.gaussian import (
    RELATION,
    Budget,
    Stage,
    epsilon_of_whole,
    with_least_noise,
)

ACCOUNTANT: Final = "dp-accounting, privacy loss distributions; Gaussian steps in closed form"
HEAD_SHARE: Final = 0.5
"""The head's largest share of epsilon if more is trained after it.

Noise adds up in squares, so half of epsilon costs the later steps an eighth more noise."""


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """A run and its privacy cost.

    Attributes:
        records: number of examples; public.
        budget: the requested budget.
        head: the stage of the linear head.
        tuning: the stage of all trained parameters, or None if only the head is trained.
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
        """Return the plan with the least noise within ``budget``.

        Args:
            head, tuning: the stages; their ``noise`` is replaced.
            head_share: the head's largest share of epsilon if there is ``tuning``.
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
        """Return the epsilon of the run at the budget's delta, from the plan's numbers."""
        stages = (self.head,) if self.tuning is None else (self.head, self.tuning)
        return epsilon_of(stages, self.budget.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for ``adapter.json``."""
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
    """Return the epsilon of all steps of ``stages`` together."""
    # Steps on all examples equal one step with less noise: exact, in closed form.
    whole = sum(stage.steps / stage.noise**2 for stage in stages if stage.share == 1)
    sampled = [stage for stage in stages if stage.share < 1]
    if not sampled:
        return epsilon_of_whole(stages, delta)
    import dp_accounting  # it brings scipy, which few jobs need
    from dp_accounting import pld

    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3
    )
    if whole:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(whole)))
    for stage in sampled:
        accountant.compose(_event(stage))
    return float(accountant.get_epsilon(delta))


def _event(stage: Stage) -> Any:
    """Return a stage in the accountant's terms."""
    import dp_accounting

    step = dp_accounting.PoissonSampledDpEvent(
        stage.share, dp_accounting.GaussianDpEvent(stage.noise)
    )
    return dp_accounting.SelfComposedDpEvent(step, stage.steps)
