"""Run training from a checkpoint to the end, for every task.

Steps differ from task to task. Scoring after every epoch, keeping the best weights, reporting
progress, stopping and resuming are the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import torch

from sottovoce.cloud.job import Progress
from sottovoce.cloud.training.checkpoint import Checkpoint, Weights
from sottovoce.cloud.training.fit import Clipped, Losses, Plan, fit

__all__ = ["UNWATCHED", "Meter", "Result", "Run", "Stopped", "Watch"]

_SHARE = 0.05
"""Weight of the newest value in a moving average, which covers about 20 steps."""


class Meter:
    """Averages and speed; ``step`` is the first step of this process."""

    def __init__(self, plan: Plan, step: int) -> None:
        self._plan, self._first = plan, step
        self._began = time.monotonic()
        self._examples = 0
        self._loss: float | None = None
        self._reconstruction: float | None = None

    def add(self, losses: Losses) -> None:
        """Add a step's losses."""
        self._examples += len(losses.task)
        self._loss = _smooth(self._loss, losses.task.mean().item())
        if losses.reconstruction is not None:
            mean = losses.reconstruction.mean().item()
            self._reconstruction = _smooth(self._reconstruction, mean)

    def read(self, done: int, accuracy: float) -> Progress:
        """Return the progress after ``done`` steps; ``accuracy`` is the best held-out accuracy."""
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


B = TypeVar("B")


class Stopped(Exception):
    """`Watch.should_stop` ended the run; a checkpoint was written if it has a file."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of training; ``held_out_accuracy`` is 0 without a held-out part."""

    folder: Path
    labels: tuple[str, ...]
    held_out_accuracy: float
    held_out: int
    epochs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Watch:
    """Callbacks that observe a run and may end it.

    Attributes:
        on_progress: called after every step.
        on_checkpoint: called after a checkpoint was written.
        should_stop: called before every step, and before every batch of a pass over all texts.
    """

    on_progress: Callable[[Progress], None] | None = None
    on_checkpoint: Callable[[], None] | None = None
    should_stop: Callable[[], bool] | None = None

    def go_on(self) -> None:
        """Return, unless the run should stop.

        Raises:
            Stopped: the run should stop.
        """
        if self.should_stop and self.should_stop():
            raise Stopped

    def told(self, progress: Progress) -> None:
        """Report progress."""
        if self.on_progress:
            self.on_progress(progress)

    def kept(self) -> None:
        """Report that a checkpoint was written."""
        if self.on_checkpoint:
            self.on_checkpoint()


UNWATCHED: Final = Watch()


@dataclass(frozen=True, slots=True)
class Run:
    """The settings of a run.

    Attributes:
        identity: distinguishes its checkpoints from other runs'.
        plan: its steps.
        rate: full learning rate.
        clip: largest norm of the gradient.
        resume: file of the checkpoint; None for none.
        seconds: between checkpoints within an epoch.
    """

    identity: str
    plan: Plan
    rate: float
    clip: float
    resume: Path | None
    seconds: float

    def checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint of an earlier process of this run, if any."""
        return Checkpoint.load(self.resume, self.identity) if self.resume else None

    def follow(
        self,
        objective: Callable[[B], Losses],
        model: Weights,
        optimizer: torch.optim.Optimizer,
        point: Checkpoint,
        batch: Callable[[int], B],
        score: Callable[[], tuple[float, float]],
        watch: Watch,
    ) -> None:
        """Make every step after ``point``, and leave the best weights in ``model``.

        Args:
            objective: returns the losses of a batch.
            model: the trained model.
            optimizer: of the model.
            point: the run's state, which is updated; ``model`` and ``optimizer`` match it.
            batch: returns the batch of a step.
            score: returns held-out accuracy and loss of ``model``.
            watch: the callbacks.

        Raises:
            Stopped: after a checkpoint was written.
            SottovoceError: the loss is not a finite number. Unavailable: the disk is full.
        """
        meter = Meter(self.plan, point.step)
        begun, saved = point.step, time.monotonic()

        def batches() -> Iterator[B]:
            for at in range(begun, self.plan.steps):
                watch.go_on()
                yield batch(at)

        def take_stock() -> None:
            nonlocal saved
            ended = self.plan.ends_epoch(point.step) and point.step > point.scored
            if ended:
                point.keep_best(model.trained(), *score())
            if self.resume and (ended or time.monotonic() - saved > self.seconds):
                point.save(self.resume, self.identity, model, optimizer)
                saved = time.monotonic()
                watch.kept()
            if ended or point.step > begun:
                watch.told(meter.read(point.step, point.accuracy))

        try:
            take_stock()
            rates = [self.rate * self.plan.rate(at) for at in range(begun, self.plan.steps)]
            for losses in fit(objective, batches(), rates, Clipped(optimizer, self.clip)):
                point.step += 1
                meter.add(losses)
                take_stock()
        except Stopped:
            if self.resume:
                point.save(self.resume, self.identity, model, optimizer)
                watch.kept()
            raise
        model.restore(point.best)
