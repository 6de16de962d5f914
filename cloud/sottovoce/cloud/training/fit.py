"""The inner loop of training, and its one seam: how the losses of a batch become a step.

Why it is here: the trainer and the benches make their steps in one place, and how a step is made
can be exchanged without touching either: followed as it is (`Clipped`), or made private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.precision import computing
from sottovoce.core.errors import SottovoceError

__all__ = [
    "Clipped",
    "Labelled",
    "Losses",
    "Objective",
    "Plan",
    "Update",
    "batches",
    "fit",
    "schedule",
]

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


class Labelled(NamedTuple):
    """B examples and their labels, Int (B,)."""

    batch: Batch
    targets: Tensor

    def to(self, device: torch.device) -> Labelled:
        """The same on another device."""
        return Labelled(self.batch.to(device), self.targets.to(device))


@dataclass(frozen=True, slots=True)
class Objective:
    """Losses of labelled examples (RAPT v2, eq. 6, 8 and 9).

    Attributes:
        model: in evaluation mode, so without dropout.
        weight: of L_rec. It is a mean over an example's plain tokens, so the weight holds for any
            number of them.
    """

    model: TextClassifier
    weight: float = 0.0

    def __call__(self, examples: Labelled) -> Losses:
        """Each example's losses; no reconstruction where the batch has no plain tokens."""
        batch, targets = examples
        with computing(self.model.encoder):
            logits, named = self.model(batch)  # (B, C), (plain tokens, T)
            task = F.cross_entropy(logits, targets, reduction="none")
            if named is None:
                return Losses(task)
            plain = batch.plain >= 0  # (B, n)
            missed = F.cross_entropy(named, batch.plain[plain], reduction="none")
            by_place = missed.new_zeros(plain.shape).masked_scatter(plain, missed)
            return Losses(task, by_place.sum(1) / plain.sum(1).clamp_min(1), self.weight)


_POOL: Final = 8
"""Batches that are sorted by length together."""


class Plan:
    """The steps of one run.

    Args:
        rows: places of the examples to train on.
        lengths: sub-tokens of every example, by place.
        size: examples a batch.
        epochs: 0 takes ``least_epochs``, more where that gives fewer than ``least_steps``.
        seed: of the run.
        warmup: share of the steps in which the rate rises.

    Attributes:
        epochs: how often every row is seen.
        steps: in all.
    """

    def __init__(
        self,
        rows: Sequence[int],
        lengths: Sequence[int],
        *,
        size: int,
        epochs: int,
        least_epochs: int,
        least_steps: int,
        seed: int,
        warmup: float,
    ) -> None:
        self._rows, self._lengths, self._size = rows, lengths, size
        self._seed, self._warmup = seed, warmup
        self._per_epoch = math.ceil(len(rows) / size)
        self.epochs = epochs or max(least_epochs, math.ceil(least_steps / self._per_epoch))
        self.steps = self.epochs * self._per_epoch
        self._made: tuple[int, list[list[int]]] = (-1, [])

    def epoch(self, step: int) -> int:
        """The epoch a step is in, from 0."""
        return step // self._per_epoch

    def ends_epoch(self, done: int) -> bool:
        """Whether an epoch is complete after ``done`` steps."""
        return done % self._per_epoch == 0

    def rows(self, step: int) -> list[int]:
        """Places of the step's examples."""
        epoch, place = divmod(step, self._per_epoch)
        if self._made[0] != epoch:
            made = batches(self._rows, self._lengths, self._size, self._seed, epoch)
            self._made = epoch, made
        return self._made[1][place]

    def rate(self, step: int) -> float:
        """Share of the full learning rate."""
        return schedule(step, self.steps, self._warmup)


def batches(
    rows: Sequence[int], lengths: Sequence[int], size: int, seed: int, epoch: int
) -> list[list[int]]:
    """The epoch's batches: shuffled, yet of similar length to save padding."""
    random = np.random.default_rng([seed, 1, epoch])
    order = [rows[i] for i in random.permutation(len(rows))]
    pooled = size * _POOL
    grouped = []
    for at in range(0, len(order), pooled):
        near = sorted(order[at : at + pooled], key=lambda i: lengths[i])
        grouped += [near[i : i + size] for i in range(0, len(near), size)]
    return [grouped[i] for i in random.permutation(len(grouped))]


def schedule(step: int, steps: int, warmup: float) -> float:
    """Linear warm-up over a share of the steps, then linear decay towards 0."""
    rise = max(1, round(warmup * steps))
    return min((step + 1) / rise, (steps - step) / max(1, steps - rise))
