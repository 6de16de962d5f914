"""A run of training from where its checkpoint left it to its end, for every kind of task.

Why it is here: what a step is made from differs from task to task. That a run is scored after every
epoch, keeps the best weights, tells how far it is, stops when asked and goes on where it was does
not.
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


B = TypeVar("B")


class Stopped(Exception):
    """`Watch.should_stop` said so; a checkpoint was written if there is a place for one."""


@dataclass(frozen=True, slots=True)
class Result:
    """What training gave; ``held_out_accuracy`` is 0 where nothing could be held out."""

    folder: Path
    labels: tuple[str, ...]
    held_out_accuracy: float
    held_out: int
    epochs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of a run, and may end it.

    Attributes:
        on_progress: called after every step.
        on_checkpoint: called when one was written that a later run goes on from.
        should_stop: asked before every step and, in passes over all texts, before every batch.
    """

    on_progress: Callable[[Progress], None] | None = None
    on_checkpoint: Callable[[], None] | None = None
    should_stop: Callable[[], bool] | None = None

    def go_on(self) -> None:
        """Goes on.

        Raises:
            Stopped: it is not to.
        """
        if self.should_stop and self.should_stop():
            raise Stopped

    def told(self, progress: Progress) -> None:
        """Tells how far the run is."""
        if self.on_progress:
            self.on_progress(progress)

    def kept(self) -> None:
        """Tells that a checkpoint was written."""
        if self.on_checkpoint:
            self.on_checkpoint()


UNWATCHED: Final = Watch()


@dataclass(frozen=True, slots=True)
class Run:
    """What a run goes by.

    Attributes:
        identity: tells its checkpoints from other runs'.
        plan: its steps.
        rate: full learning rate.
        clip: most that the gradient's norm may be.
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
        """Where an earlier process left this very run."""
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
        """Makes every step after ``point``, which it changes, and leaves ``model`` with the best
        weights.

        Args:
            objective: gives the losses of a batch.
            model: what is trained.
            optimizer: of that.
            point: where the run stands; ``model`` and ``optimizer`` stand there too.
            batch: of a step.
            score: held-out accuracy and loss of ``model``.
            watch: who is told.

        Raises:
            Stopped: a checkpoint of where it stopped is written.
            SottovoceError: the loss is no longer a number. Unavailable: the disk is full.
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
