"""A classifier of which every example of a batch has a copy of its own of all that is trained.

Why it is here: private training must know how much each single example pulls. Serving gives each
row of a pass an adapter of its own already (see `sottovoce.cloud.models.rows`); training on as many
copies of one adapter, the gradient of the summed loss in copy i is the gradient of example i alone.
No hooks, no second backward pass, and it holds for every method whose row is one tensor.
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
"""One Poisson sample, in the pieces that it is worked through in; there may be none."""


class Trained:
    """What is trained, and while a step lasts a copy of it for every example.

    Attributes:
        values: `ROW`, the adapter's numbers (not there where the head alone is trained); `WEIGHT`
            Float (C, h) and `BIAS` Float (C,) of the head, which sees states over a scale.
    """

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        self.values = {name: value.detach().clone() for name, value in values.items()}
        self._copies: dict[str, Tensor] = {}

    def trained(self) -> dict[str, Tensor]:
        """`values`, by the name that checkpoints know."""
        return self.values

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor]) -> None:
        """Copies back what `trained` gave, all of it or a part."""
        for name, value in state.items():
            self.values[name].copy_(value)

    @contextmanager
    def copied(self, examples: int) -> Iterator[dict[str, Tensor]]:
        """While it lasts, `copies` are these, by name Float (examples, ...), and differentiable."""
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
        """One for each example of the batch at hand.

        Raises:
            RuntimeError: outside of `copied`.
        """
        if not self._copies:
            raise RuntimeError("no copies were made")
        return self._copies


@dataclass(frozen=True, slots=True)
class RowClassifier:
    """A frozen encoder, an adapter as it joins a pass, a linear head.

    Attributes:
        encoder: nothing is built into it.
        template: the kind of row.
        scale: typical length of a pooled state, so that the head's numbers are of the adapter's
            order.
    """

    encoder: Any
    template: Row
    scale: float

    def states(self, rows: Tensor | None, batch: Batch) -> Tensor:
        """Pooled states over ``scale``: Float (B, h), of rows' numbers Float (B, ...)."""
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
    """What private training minimises: the labels' cross-entropy, from each example's own copy.

    Attributes:
        model: gives the states.
        trained: holds the copies.
    """

    model: RowClassifier
    trained: Trained

    def __call__(self, sample: Sample) -> Losses:
        """Of a sample of one piece: the update goes through a larger one piece by piece."""
        ((batch, targets),) = sample
        copies = self.trained.copies
        states = self.model.states(copies.get(ROW), batch)  # (B, h)
        logits = torch.einsum("bch,bh->bc", copies[WEIGHT], states) + copies[BIAS]
        return Losses(F.cross_entropy(logits, targets, reduction="none"))


@dataclass(frozen=True, slots=True)
class Private:
    """Makes private steps; see `sottovoce.cloud.training.fit.Update`.

    Attributes:
        trained: what changes.
        optimizer: of its values; what it makes of a private gradient is as private.
        stage: says clip, noise and share.
        records: number of examples there are.
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
        """Makes one step. The losses it gives are as secret as the examples."""
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
