"""Per-example gradients: a classifier with a separate copy of the parameters for each example.

Private training needs the gradient of each single example. In serving, each row of a pass already
has a separate adapter (see `sottovoce.cloud.models.rows`). Training uses B copies of one adapter.
The gradient of the summed loss with respect to copy i is then the gradient of example i alone. This
needs no hooks and no second backward pass, and works for every method with a row of one tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import pool
from sottovoce.cloud.models.precision import computing
from sottovoce.cloud.models.rows import Row, run
from sottovoce.cloud.training.dp_sgd.noise import clipped_sum, noisy_mean
from sottovoce.cloud.training.fit import Labelled, Losses
from sottovoce.core.privacy.gaussian import Stage
from sottovoce.core.privacy.noise import Random

__all__ = ["BIAS", "ROW", "WEIGHT", "Private", "RowClassifier", "RowObjective", "Sample", "Trained"]

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
        """Copy back all or some of the parameters from `trained`."""
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
        """The copies for the examples of the current batch.

        Raises:
            RuntimeError: outside of `copied`.
        """
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
    """The loss of private training: the labels' cross-entropy, from each example's copy.

    Attributes:
        model: computes the states.
        trained: holds the copies.
    """

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
    """Makes private steps; see `sottovoce.cloud.training.fit.Update`.

    Attributes:
        trained: the parameters.
        optimizer: of the parameters. Post-processing of a private gradient stays private.
        stage: clip, noise and share.
        records: number of all examples.
        random: for tests only.
    """

    trained: Trained
    optimizer: torch.optim.Optimizer
    stage: Stage
    records: int
    random: Random | None = None

    def __call__(
        self,
        model: Callable[[Sample], Losses],
        batch: Sample,
        rate: float,
    ) -> Losses:
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
