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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final

import dp_accounting
from dp_accounting import pld
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian

from sottovoce.core.errors import InvalidInput
from sottovoce.core.wire.training_settings import usual_delta

__all__ = [
    "ACCOUNTANT",
    "RELATION",
    "Budget",
    "PrivatePlan",
    "Stage",
    "epsilon_of",
    "with_least_noise",
]

ACCOUNTANT: Final = "dp-accounting, privacy loss distributions; Gaussian steps in closed form"
RELATION: Final = "one uploaded example added or removed"

_HEAD_SHARE: Final = 0.25
"""Of epsilon that the head may spend where more is trained after it."""

_NOISIEST: Final = 1_000.0
_TOLERANCE: Final = 1e-3
"""Of a noise multiplier, relative: what it is rounded up by."""


@dataclass(frozen=True, slots=True)
class Budget:
    """(epsilon, delta)-differential privacy.

    Raises:
        InvalidInput: not positive and finite, or a delta of 1 or more.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InvalidInput(
                "epsilon must be a positive number",
                fix="give one from 0.1 to 10: the smaller, the stronger",
                subject="dp_epsilon",
            )
        if not 0 < self.delta < 1:
            raise InvalidInput(
                "delta is out of range",
                fix="leave it out, or give far less than one in the number of examples",
                subject="dp_delta",
            )

    @classmethod
    def of(cls, epsilon: float, delta: float, records: int) -> Budget:
        """``delta`` 0 takes the usual one.

        Raises:
            InvalidInput: see `Budget`; or a delta that would allow to publish whole examples.
        """
        budget = cls(epsilon, delta or usual_delta(records))
        if budget.delta > 1 / records:
            raise InvalidInput(
                "delta is larger than one in the number of examples: it would permit to give "
                "single examples away",
                fix=f"leave it out, or give at most {usual_delta(records):.1g}",
                subject="dp_delta",
            )
        return budget


@dataclass(frozen=True, slots=True)
class Stage:
    """Steps that all do the same.

    Attributes:
        steps: how many.
        share: probability with which each example is in a step; 1 for all of them.
        noise: standard deviation of the noise on the sum, in units of ``clip``.
        clip: most that one example's gradient may weigh.
    """

    steps: int
    share: float
    noise: float
    clip: float

    @property
    def event(self) -> dp_accounting.DpEvent:
        """What the accountant is told."""
        step = dp_accounting.PoissonSampledDpEvent(
            self.share, dp_accounting.GaussianDpEvent(self.noise)
        )
        return dp_accounting.SelfComposedDpEvent(step, self.steps)


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
        cls, budget: Budget, records: int, *, head: Stage, tuning: Stage | None = None
    ) -> PrivatePlan:
        """The least noise that keeps to ``budget``.

        Args:
            budget: not exceeded.
            records: number of examples.
            head, tuning: as they are to be but for ``noise``, which is found here.
        """
        alone = tuning is None
        share = budget.epsilon * (1 if alone else _HEAD_SHARE)
        found = with_least_noise(lambda noise: (_with(head, noise),), share, budget.delta)
        first = _with(head, found)
        if tuning is None:
            return cls(records, budget, first, None)
        stage = tuning
        rest = with_least_noise(
            lambda noise: (first, _with(stage, noise)), budget.epsilon, budget.delta
        )
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


def with_least_noise(
    stages: Callable[[float], tuple[Stage, ...]], epsilon: float, delta: float
) -> float:
    """The smallest noise multiplier at which ``stages`` spend at most ``epsilon``."""
    enough = 1.0
    while epsilon_of(stages(enough), delta) > epsilon:
        enough *= 2
        if enough > _NOISIEST:
            raise InvalidInput(
                "epsilon is too small for so many steps",
                fix="give a larger one, or fewer epochs",
                subject="dp_epsilon",
            )
    while epsilon_of(stages(enough / 2), delta) <= epsilon:
        enough /= 2
    short = enough / 2
    while enough / short > 1 + _TOLERANCE:
        middle = math.sqrt(short * enough)
        if epsilon_of(stages(middle), delta) > epsilon:
            short = middle
        else:
            enough = middle
    return enough


@lru_cache(maxsize=256)
def epsilon_of(stages: tuple[Stage, ...], delta: float) -> float:
    """What all steps of ``stages`` spend together."""
    # Steps on all examples are together one with less noise: exact, in closed form.
    whole = sum(stage.steps / stage.noise**2 for stage in stages if stage.share == 1)
    sampled = [stage for stage in stages if stage.share < 1]
    if not sampled:
        return float(get_epsilon_gaussian(1 / math.sqrt(whole), delta))
    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3
    )
    if whole:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(whole)))
    for stage in sampled:
        accountant.compose(stage.event)
    return float(accountant.get_epsilon(delta))
