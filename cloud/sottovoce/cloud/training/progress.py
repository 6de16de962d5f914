"""Turns the steps of a run into the progress its tenant sees."""

from __future__ import annotations

import time

from sottovoce.cloud.job import Progress
from sottovoce.cloud.training.fit import Losses
from sottovoce.cloud.training.schedule import Plan

__all__ = ["Meter"]

_SHARE = 0.05
"""Of the newest value in a moving average: about the last 20 steps."""


class Meter:
    """Averages and speed; ``step`` is the first one of this process."""

    def __init__(self, plan: Plan, step: int) -> None:
        self._plan, self._first = plan, step
        self._began = time.monotonic()
        self._examples = 0
        self._loss: float | None = None
        self._reconstruction: float | None = None

    def add(self, losses: Losses) -> None:
        """Takes in a step."""
        self._examples += len(losses.task)
        self._loss = _smooth(self._loss, losses.task.mean().item())
        if losses.reconstruction is not None:
            mean = losses.reconstruction.mean().item()
            self._reconstruction = _smooth(self._reconstruction, mean)

    def read(self, done: int, accuracy: float) -> Progress:
        """After ``done`` steps in all; ``accuracy`` is the best so far on the held-out part."""
        taken = max(time.monotonic() - self._began, 1e-9)
        return Progress(
            epoch=self._plan.epoch(done - 1) + 1,
            epochs=self._plan.epochs,
            step=done,
            steps=self._plan.steps,
            loss=self._loss or 0.0,
            reconstruction_loss=self._reconstruction or 0.0,
            held_out_accuracy=accuracy,
            examples_per_second=self._examples / taken,
            seconds_left=(self._plan.steps - done) * taken / max(1, done - self._first),
        )


def _smooth(mean: float | None, value: float) -> float:
    return value if mean is None else mean + _SHARE * (value - mean)
