"""Run training from a checkpoint to the end, for every task, with an update rule for its steps.

Steps differ from task to task. The update rule can be exchanged: plain clipping (`Clipped`), or
differentially private steps (`dp_sgd.steps.Private`). Scoring after every epoch, keeping the best
weights, reporting progress, stopping and resuming are the same.

A checkpoint is one safetensors file that is always complete. Weights, optimiser moments and the
best weights so far are in one file, because one ``os.replace`` then changes them together. Nothing
is pickled, so reading a checkpoint cannot run code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Progress, Stopped, Watch
from sottovoce.cloud.models.backbone import computing
from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.core.errors import SottovoceError
from sottovoce.core.platform.files import full_disk_is_unavailable, in_place_of

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

    Each step is made on request, so the caller may score, save or stop between two steps. The
    schedule has the learning rate of each step.
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
        return step // self._per_epoch

    def ends_epoch(self, done: int) -> bool:
        """Return whether an epoch is complete after ``done`` steps."""
        return done % self._per_epoch == 0

    def rows(self, step: int) -> list[int]:
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


_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


class Weights(Protocol):
    """Trained parameters, by name; `restore` copies back all or some of them."""

    def trained(self) -> dict[str, Tensor]: ...

    def restore(self, state: dict[str, Tensor]) -> None: ...


def _copy(state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: t.detach().to("cpu", copy=True) for name, t in state.items()}


@dataclass(slots=True)
class Checkpoint:
    """Steps done, steps at the last scoring, and the best weights with their scores.

    The scores are accuracy and loss on the held-out part.
    """

    step: int
    scored: int
    best: dict[str, Tensor]
    accuracy: float
    loss: float
    _tensors: dict[str, Tensor]

    @classmethod
    def first(cls, weights: dict[str, Tensor], accuracy: float, loss: float) -> Checkpoint:
        return cls(0, 0, _copy(weights), accuracy, loss, {})

    def keep_best(self, weights: dict[str, Tensor], accuracy: float, loss: float) -> None:
        """Keep the current ``weights`` as the best, unless the kept ones are better."""
        self.scored = self.step
        if (accuracy, -loss) >= (self.accuracy, -self.loss):
            self.best, self.accuracy, self.loss = _copy(weights), accuracy, loss

    @classmethod
    def load(cls, file: Path, identity: str) -> Checkpoint | None:
        """Read the checkpoint in ``file``; None if it belongs to another run or is missing."""
        try:
            with safe_open(file, framework="pt") as opened:
                facts = opened.metadata()
                if facts.get("identity") != identity:
                    return None
                tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
        best = {name[5:]: t for name, t in tensors.items() if name.startswith("best.")}
        return cls(
            int(facts["step"]),
            int(facts["scored"]),
            best,
            float(facts["accuracy"]),
            float(facts["loss"]),
            tensors,
        )

    def into(self, model: Weights, optimizer: torch.optim.Optimizer) -> None:
        """Restore weights and optimiser moments."""
        weights = model.trained()
        model.restore({name: self._tensors[f"model.{name}"] for name in weights})
        for name, parameter in weights.items():
            moments = {key: self._tensors.get(f"{key}.{name}") for key in _MOMENTS}
            optimizer.state[parameter] = {
                # AdamW counts its steps on the CPU.
                key: t.clone() if key == "step" else t.to(parameter.device, copy=True)
                for key, t in moments.items()
                if t is not None
            }
        self._tensors = {}

    def save(
        self, file: Path, identity: str, model: Weights, optimizer: torch.optim.Optimizer
    ) -> None:
        """Write the whole state; a crash leaves the old file or the new one.

        The parent folder must exist. A folder that another worker took over is not created again.

        Raises:
            Unavailable: the disk is full.
        """
        tensors = {f"best.{name}": t for name, t in self.best.items()}
        for name, parameter in model.trained().items():
            tensors[f"model.{name}"] = parameter.detach().cpu()
            for key in _MOMENTS:
                if key in optimizer.state[parameter]:
                    tensors[f"{key}.{name}"] = optimizer.state[parameter][key].detach().cpu()
        facts = {
            "identity": identity,
            "step": str(self.step),
            "scored": str(self.scored),
            "accuracy": repr(self.accuracy),
            "loss": repr(self.loss),
        }
        with full_disk_is_unavailable():
            file.parent.mkdir(exist_ok=True)
            with in_place_of(file) as aside:
                save_file({n: t.contiguous() for n, t in tensors.items()}, aside, metadata=facts)


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
class Run:
    """The settings of a run.

    Attributes:
        identity: distinguishes its checkpoints from other runs'.
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
            point: the run's state, which is updated; ``model`` and ``optimizer`` match it.
            score: returns held-out accuracy and loss of ``model``.

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
