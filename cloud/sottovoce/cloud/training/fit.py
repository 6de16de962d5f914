"""The inner loop of training, and its one seam: how the losses of a batch become a step.

Why it is here: the trainer and the benches make their steps in one place, and how a step is made
can be exchanged without touching either: followed as it is (`Clipped`), or made private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from sottovoce.core.errors import SottovoceError

__all__ = ["Clipped", "Losses", "Update", "fit"]

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Losses:
    """Of a batch's B examples, each from that example alone.

    Attributes:
        task: Float (B,).
        reconstruction: Float (B,), or None where there was nothing to name.
        weight: of the reconstruction beside the task, which counts 1.
    """

    task: Tensor
    reconstruction: Tensor | None = None
    weight: float = 0.0

    @property
    def total(self) -> Tensor:
        """What is minimised in the mean, L_task + weight L_rec (RAPT v2, eq. 9): Float (B,)."""
        if self.reconstruction is None:
            return self.task
        return self.task + self.weight * self.reconstruction


class Update(Protocol[B]):
    """How the losses of a batch become a step of the parameters an update was made with."""

    def __call__(self, model: Callable[[B], Losses], batch: B, rate: float) -> Losses:
        """Makes one step.

        Args:
            model: gives the losses of a batch, differentiable. Nothing was computed yet, so layers
                may be hooked first, and it may be called for one example after the other: no
                example's loss depends on another's.
            batch: as ``batches`` of `fit` made it. What else a step needs of its own (which
                examples were sampled, how many were expected, a seed for noise) comes in here: an
                update keeps nothing from step to step but the optimiser's state, so that a run that
                is resumed ends with the same weights.
            rate: the step's learning rate.

        Returns:
            The losses before the step, for those who watch.

        Raises:
            SottovoceError: there is no number to follow; the parameters are as they were.
        """


def fit(
    model: Callable[[B], Losses], batches: Iterable[B], schedule: Iterable[float], update: Update[B]
) -> Iterator[Losses]:
    """Makes a step for every batch, and gives its losses.

    A step is made when it is asked for: whoever iterates may score, save or stop between two.

    Args:
        model: gives the losses of a batch.
        batches: one a step.
        schedule: the learning rate of each step; as many as batches.
        update: makes the step.
    """
    for batch, rate in zip(batches, schedule, strict=True):
        yield update(model, batch, rate)


@dataclass(frozen=True, slots=True)
class Clipped:
    """Follows the gradient of the mean loss, no further than ``clip``.

    Attributes:
        optimizer: of all that is trained.
        clip: most that the gradient's norm may be.
    """

    optimizer: torch.optim.Optimizer
    clip: float = 1.0

    def __call__(self, model: Callable[[B], Losses], batch: B, rate: float) -> Losses:
        """See `Update`."""
        groups = self.optimizer.param_groups
        losses = model(batch)
        loss = losses.total.mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = [parameter for group in groups for parameter in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.clip)
        if not torch.isfinite(loss + norm):
            raise SottovoceError(
                "training diverged", fix="use a smaller learning rate", subject="learning_rate"
            )
        for group in groups:
            group["lr"] = rate
        self.optimizer.step()
        return losses
