"""A private step: clip each example's gradient, sum, add noise once, divide.

Private training needs the gradient of each single example. In serving, each row of a pass already
has a separate adapter (see `sottovoce.cloud.models.rows`). Training uses B copies of one adapter.
The gradient of the summed loss with respect to copy i is then the gradient of example i alone. This
needs no hooks and no second backward pass, and works for every method with a row of one tensor.

The step is DP-SGD (Abadi et al., 2016, algorithm 1), and PromptDPSGD on a soft prompt (Duan et al.,
2023, algorithm 1). Three details carry the guarantee, and a test breaks each of them:

- The clip is of one example, over all trained parameters together.
- The noise is drawn once for a step, even if the step is computed in several pieces.
- The divisor is the *expected* number of examples, because the true number is as secret as the
  examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.backbone import computing
from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import pool
from sottovoce.cloud.models.rows import Row, run
from sottovoce.cloud.training.run import Labelled, Losses
from sottovoce.core.privacy import gaussian
from sottovoce.core.privacy.gaussian import Stage
from sottovoce.core.privacy.noise import Random, SecureRandom


def normal(shape: tuple[int, ...], random: Random | None = None) -> Tensor:
    """Return independent numbers from N(0, 1), Float64 ``shape``.

    Args:
        random: for tests only; by default the operating system's generator.
    """
    return torch.from_numpy(gaussian.normal(math.prod(shape), random)).reshape(shape)


def sample(n: int, share: float, random: Random | None = None) -> list[int]:
    """Return a step's examples: each of ``n`` independently, with probability ``share``.

    This is Poisson sampling, which the accountant assumes. The number of examples varies, and may
    be 0.
    """
    drawn = (random or SecureRandom()).random((n,))
    found: list[int] = np.flatnonzero(drawn < share).tolist()
    return found


INSIDE: Final = 1 - 1e-6
"""Factor that keeps rounding on the safe side of the clip."""

Gradients = Mapping[str, Tensor]
"""Gradients by name, Float (B, ...): one for each example."""


def clipped_sum(gradients: Gradients, clip: float) -> dict[str, Tensor]:
    """Return the sum of all examples' gradients, each clipped to ``clip``: by name Float (...).

    The length is over all names together. A gradient that is not finite counts as 0, because
    ending the training would reveal the example.
    """
    flat = {name: each.detach().float().flatten(1) for name, each in gradients.items()}  # (B, n)
    squares = [each.square().sum(1, dtype=torch.float64) for each in flat.values()]
    length = torch.stack(squares).sum(0).sqrt()  # (B,)
    scale = (clip * INSIDE / length.clamp_min(1e-30)).clamp_max(1.0)
    sound = torch.isfinite(length)
    scale = torch.where(sound, scale, 0.0).float()
    return {
        name: (scale @ each.where(sound[:, None], 0.0)).reshape(gradients[name].shape[1:])
        for name, each in flat.items()
    }


def noisy_mean(
    sums: Mapping[str, Tensor], stage: Stage, records: int, random: Random | None = None
) -> dict[str, Tensor]:
    """Return the step's direction (sum + N(0, (noise clip)^2)) / (share records), by name.

    The noise has the precision of the sum. Lower digits of the sum would stay without noise.

    Args:
        sums: of clipped gradients.
        random: for tests only.
    """
    expected = stage.share * records
    return {
        name: (each + (stage.noise * stage.clip * normal(each.shape, random)).to(each)) / expected
        for name, each in sums.items()
    }


ROW: Final = "row"
WEIGHT: Final = "weight"
BIAS: Final = "bias"

Sample = Sequence[Labelled]
"""One Poisson sample, in pieces for separate passes; possibly empty."""


class Trained:
    """The trained parameters, and during a step a copy of them for every example.

    Attributes:
        values: `ROW`, the adapter's numbers (missing if only the head is trained); `WEIGHT`
            Float (C, h) and `BIAS` Float (C,) of the head, whose inputs are scaled.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self.values = {name: value.detach().clone() for name, value in values.items()}
        self._copies: dict[str, Tensor] = {}

    def trained(self) -> dict[str, Tensor]:
        """Return `values` under the name in checkpoints."""
        return self.values

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        for name, value in state.items():
            self.values[name].copy_(value)

    @contextmanager
    def copied(self, examples: int) -> Iterator[dict[str, Tensor]]:
        """Set `copies` during the block: by name Float (examples, ...), differentiable."""
        self._copies = {
            name: value.expand(examples, *value.shape).clone().requires_grad_()
            for name, value in self.values.items()
        }
        try:
            yield self._copies
        finally:
            self._copies = {}

    @property
    def copies(self) -> Mapping[str, Tensor]:
        """The copies for the examples of the current batch, inside of `copied`."""
        if not self._copies:
            raise RuntimeError("no copies were made")
        return self._copies


@dataclass(frozen=True, slots=True)
class RowClassifier:
    """A frozen encoder, and an adapter as a row of its passes.

    Attributes:
        encoder: without any method built in.
        template: the kind of row.
        scale: typical length of a pooled state, so that the head's numbers have the adapter's
            order of magnitude.
    """

    encoder: Any
    template: Row
    scale: float

    def states(self, rows: Tensor | None, batch: Batch) -> Tensor:
        """Return pooled states divided by ``scale``, Float (B, h), for rows Float (B, ...)."""
        dtype = next(self.encoder.parameters()).dtype
        if rows is None:
            own = [Row()] * len(batch.ids)
        else:
            own = [self.template.holding(numbers) for numbers in rows.to(dtype).unbind()]
        with computing(self.encoder):
            hidden = run(self.encoder, batch.ids, batch.attention, own)
        return pool(hidden.float(), batch.text) / self.scale


@dataclass(frozen=True, slots=True)
class RowObjective:
    """The loss of private training: the labels' cross-entropy, from each example's copy."""

    model: RowClassifier
    trained: Trained

    def __call__(self, sample: Sample) -> Losses:
        """Return the losses of a sample of one piece; `Private` divides larger samples."""
        ((batch, targets),) = sample
        copies = self.trained.copies
        states = self.model.states(copies.get(ROW), batch)  # (B, h)
        logits = torch.einsum("bch,bh->bc", copies[WEIGHT], states) + copies[BIAS]
        return Losses(F.cross_entropy(logits, targets, reduction="none"))


@dataclass(frozen=True, slots=True)
class Private:
    """Makes private steps; see `sottovoce.cloud.training.run.Update`.

    Attributes:
        optimizer: of the parameters. Post-processing of a private gradient stays private.
        stage: clip, noise and share.
        random: for tests only.
    """

    trained: Trained
    optimizer: torch.optim.Optimizer
    stage: Stage
    records: int
    random: Random | None = None

    def __call__(self, model: Callable[[Sample], Losses], batch: Sample, rate: float) -> Losses:
        """Make one step. The returned losses are as secret as the examples."""
        values = self.trained.values
        sums = {name: torch.zeros_like(value) for name, value in values.items()}
        seen = []
        for piece in batch:
            with self.trained.copied(len(piece.targets)) as copies:
                losses = model([piece]).task
                found = torch.autograd.grad(losses.sum(), list(copies.values()))
            seen.append(losses.detach())
            alone = dict(zip(copies, found, strict=True))
            for name, part in clipped_sum(alone, self.stage.clip).items():
                sums[name] += part
        for name, mean in noisy_mean(sums, self.stage, self.records, self.random).items():
            values[name].grad = mean
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return Losses(torch.cat(seen) if seen else torch.zeros(0))
