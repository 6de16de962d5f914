"""What each step of training is given: its rows and its learning rate.

Why it is here: all of it is a function of (seed, step) and nothing else, so a run that was stopped
and goes on from its checkpoint sees what it would have seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

__all__ = ["Plan", "batches", "schedule"]

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
