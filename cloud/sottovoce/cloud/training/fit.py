"""The inner loop of training: batches, losses, and the update rule that makes a step.

Trainers and benches make their steps here. The update rule can be exchanged without a change to
either: plain clipping (`Clipped`), or differentially private steps (`dp_sgd.steps.Private`).
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

from sottovoce.cloud.models.backbone import computing
from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.core.errors import SottovoceError

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of a batch's B examples, each computed from that example alone.

    Attributes:
        task: Float (B,).
        reconstruction: Float (B,), or None if there are no plain tokens to name.
        weight: of the reconstruction; the task's weight is 1.
    """

    task: Tensor
    reconstruction: Tensor | None = None
    weight: float = 0.0

    @property
    def total(self) -> Tensor:
        """Return L_task + weight L_rec (RAPT v2, eq. 9), whose mean is minimised: Float (B,)."""
        if self.reconstruction is None:
            return self.task
        return self.task + self.weight * self.reconstruction


class Update(Protocol[B]):
    """The rule that makes a batch's losses into a step of the rule's parameters."""

    def __call__(self, model: Callable[[B], Losses], batch: B, rate: float) -> Losses:
        """Make one step.

        Args:
            model: returns the losses of a batch, differentiable. Nothing is computed before the
                call, so the rule may hook layers first. It may also call the model example by
                example, because losses are independent of each other.
            batch: one of the batches of `fit`. Further inputs of a step (the sampled examples, the
                expected number, a seed for noise) must be in the batch. The rule keeps only the
                optimiser's state between steps, so a resumed run ends with the same weights.
            rate: the step's learning rate.

        Returns:
            The losses before the step, for display.

        Raises:
            SottovoceError: the loss is not a finite number; the parameters are unchanged.
        """


def fit(
    model: Callable[[B], Losses], batches: Iterable[B], schedule: Iterable[float], update: Update[B]
) -> Iterator[Losses]:
    """Make a step for every batch, and yield its losses.

    Each step is made on request, so the caller may score, save or stop between two steps.

    Args:
        model: returns the losses of a batch.
        batches: one for each step.
        schedule: the learning rate of each step; as long as ``batches``.
        update: makes the step.
    """
    for batch, rate in zip(batches, schedule, strict=True):
        yield update(model, batch, rate)


@dataclass(frozen=True, slots=True)
class Clipped:
    """Follows the gradient of the mean loss, clipped to the norm ``clip``."""

    optimizer: torch.optim.Optimizer
    clip: float = 1.0

    def __call__(self, model: Callable[[B], Losses], batch: B, rate: float) -> Losses:
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
        """Return the examples on another device."""
        return Labelled(self.batch.to(device), self.targets.to(device))


@dataclass(frozen=True, slots=True)
class Objective:
    """Losses of labelled examples (RAPT v2, eq. 6, 8 and 9).

    Attributes:
        model: in evaluation mode, so without dropout.
        weight: of L_rec. L_rec is a mean over an example's plain tokens, so the weight suits any
            number of plain tokens.
    """

    model: TextClassifier
    weight: float = 0.0

    def __call__(self, examples: Labelled) -> Losses:
        """Return each example's losses; no reconstruction if the batch has no plain tokens."""
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
        rows: indices of the training examples.
        lengths: sub-tokens of every example, by index.
        size: examples in a batch.
        epochs: 0 takes ``least_epochs``, or more to reach ``least_steps``.
        seed: of the run.
        warmup: share of the steps with a rising rate.
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
        """Return the epoch of a step, from 0."""
        return step // self._per_epoch

    def ends_epoch(self, done: int) -> bool:
        """Return whether an epoch is complete after ``done`` steps."""
        return done % self._per_epoch == 0

    def rows(self, step: int) -> list[int]:
        """Return the indices of the step's examples."""
        epoch, place = divmod(step, self._per_epoch)
        if self._made[0] != epoch:
            made = batches(self._rows, self._lengths, self._size, self._seed, epoch)
            self._made = epoch, made
        return self._made[1][place]

    def rate(self, step: int) -> float:
        """Return the step's share of the full learning rate."""
        return schedule(step, self.steps, self._warmup)


def batches(
    rows: Sequence[int], lengths: Sequence[int], size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return the epoch's batches: shuffled, but of similar length to save padding."""
    random = np.random.default_rng([seed, 1, epoch])
    order = [rows[i] for i in random.permutation(len(rows))]
    pooled = size * _POOL
    grouped = []
    for at in range(0, len(order), pooled):
        near = sorted(order[at : at + pooled], key=lambda i: lengths[i])
        grouped += [near[i : i + size] for i in range(0, len(near), size)]
    return [grouped[i] for i in random.permutation(len(grouped))]


def schedule(step: int, steps: int, warmup: float) -> float:
    """Return the rate: linear warm-up over a share of the steps, then linear decay to 0."""
    rise = max(1, round(warmup * steps))
    return min((step + 1) / rise, (steps - step) / max(1, steps - rise))
