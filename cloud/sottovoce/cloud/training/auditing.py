"""Audits private training: plants canaries by coins, trains, guesses the coins from the adapter.

Why it is here: the guesses must be as good as can be for the bound to say something, and three
things make them so. A canary has the label that a head trained without canaries finds least likely,
so each pulls as hard as the clip allows. What is looked at is how far the adapter's head lies from
where it would lie without canaries and noise. And that distance is shared out among all canaries at
once, by least squares, since what one pulls is felt along the others. None of it looks at a coin.

The number of examples, which the promise takes for public, tells how many coins fell, not which.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Example, Progress, TrainingOptions
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import encode
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.private.auditing import Bound, bound
from sottovoce.cloud.private.head import HEAD, fit_head
from sottovoce.cloud.training.private_steps import RowClassifier
from sottovoce.cloud.training.private_trainer import begin, features, train_private
from sottovoce.cloud.training.run import Watch
from sottovoce.core.errors import InvalidInput

__all__ = ["CANARIES", "FEWEST_CANARIES", "Audit", "audit", "pulls", "unlikeliest"]

CANARIES: Final = 256
"""More than the head has inputs for, and their pulls can no longer be told apart."""

FEWEST_CANARIES: Final = 16

_RIDGE: Final = 0.1
"""Of the least squares, relative to what a canary pulls along itself."""


@dataclass(frozen=True, slots=True)
class Audit:
    """What was claimed and what was shown.

    Attributes:
        claimed: epsilon of the plan that ran.
        delta: of the same.
        shown: a lower bound on epsilon at this delta.
    """

    claimed: float
    delta: float
    shown: Bound

    @property
    def holds(self) -> bool:
        """Whether the claim was not refuted."""
        return self.shown.epsilon <= self.claimed


def audit(
    examples: Sequence[Example],
    options: TrainingOptions,
    open_backbone: Callable[[], LoadedBackbone],
    *,
    canaries: int = CANARIES,
    on_progress: Callable[[Progress], None] | None = None,
    random: np.random.Generator | None = None,
) -> Audit:
    """Trains once with canaries among the examples, and says what that shows.

    Args:
        examples: as many of them as there are canaries become one, with a label that is wrong.
        options: of the job whose privacy is in question; with an epsilon.
        open_backbone: gives one that was freshly loaded.
        canaries: coins to throw.
        on_progress: called after every step of the training.
        random: for tests only.

    Raises:
        InvalidInput: too few examples for the canaries, or nothing that is claimed.
        SottovoceError: see `train_private`.
    """
    if not options.dp_epsilon:
        raise InvalidInput(
            "training that is not private claims nothing that could be refuted",
            fix="give an epsilon, or a job that was trained with one",
            subject="dp_epsilon",
        )
    if options.pate:
        raise InvalidInput(
            "votes of teachers are not audited: this trains on the examples themselves",
            fix="audit an adapter that was trained privately without PATE",
            subject="pate",
        )
    if not FEWEST_CANARIES <= canaries <= len(examples) // 2:
        raise InvalidInput(
            f"{canaries} canaries among {len(examples)} examples",
            fix=f"take at least {FEWEST_CANARIES}, and give at least twice as many examples",
            subject="canaries",
        )
    chance = random or np.random.default_rng()
    order = chance.permutation(len(examples))
    base = [examples[at] for at in order[canaries:]]
    labels = sorted({each.label for each in base})
    texts = [examples[at].text for at in order[:canaries]]
    everything = [*(each.text for each in base), *texts]

    frozen, scale = _states(everything, TrainingOptions(method="head"), open_backbone())
    targets = torch.tensor([labels.index(each.label) for each in base])
    free = replace(HEAD, noise=0.0)
    reference = fit_head(frozen[: len(base)], targets, len(labels), free)
    wrong = unlikeliest(frozen[len(base) :], *reference)

    planted = chance.random(canaries) < 0.5
    planting = [Example(text, labels[at]) for text, at in zip(texts, wrong.tolist(), strict=True)]
    trained = base + [each for each, coin in zip(planting, planted, strict=True) if coin]
    mixed = [trained[at] for at in chance.permutation(len(trained))]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "adapter"
        train_private(mixed, options, open_backbone(), folder, watch=Watch(on_progress))
        adapter = adapters.load(folder)
    assert adapter.weight is not None
    assert adapter.bias is not None
    states = frozen
    if adapter.tensors:
        states, scale = _states(everything, options, open_backbone(), adapter.tensors)
        reference = fit_head(states[: len(base)], targets, len(labels), free)
    head = adapter.weight * scale, adapter.bias
    moved = [found - without for found, without in zip(head, reference, strict=True)]
    scores = pulls(states[len(base) :], wrong, moved[0], moved[1])
    plan = adapter.origin["private"]
    shown = bound(scores.numpy(), planted, plan["delta"])
    return Audit(plan["epsilon"], plan["delta"], shown)


def unlikeliest(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The label that a head finds least likely: (m, h), (C, h), (C,) -> Int (m,)."""
    return (states @ weight.T + bias).argmin(1)


def pulls(states: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """How much each canary has pulled a head: Float64 (m,).

    A canary x of label y pulls along (e_y - 1/C) (x, 1)^T. The pulls are those that together come
    closest to the way the head has moved.

    Args:
        states: of the canaries, Float (m, h).
        labels: theirs, Int (m,).
        weight, bias: how far the head has moved, Float (C, h) and (C,).
    """
    inputs = torch.cat([states, states.new_ones(len(states), 1)], 1).double()
    moved = torch.cat([weight, bias[:, None]], 1).double()
    classes = F.one_hot(labels, len(moved)).double() - 1 / len(moved)
    along = ((classes @ moved) * inputs).sum(1)
    shared = (classes @ classes.T) * (inputs @ inputs.T)
    ridge = _RIDGE * shared.diagonal().mean()
    found: Tensor = torch.linalg.solve(shared + ridge * torch.eye(len(shared)).double(), along)
    return found


def _states(
    texts: Sequence[str],
    options: TrainingOptions,
    backbone: LoadedBackbone,
    tensors: dict[str, Tensor] | None = None,
) -> tuple[Tensor, float]:
    """What the head sees of every text, by an adapter's tensors; and the scale it is seen over."""
    method = from_options(options)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        model, _ = begin(backbone, method, torch.device("cpu"), bfloat16=False)
    row = None
    if tensors:
        template = method.row(model.encoder, tensors)
        model, row = RowClassifier(model.encoder, template, model.scale), template.numbers
    encoded = encode(backbone.tokenizer, texts)
    return features(model, encoded, backbone.tokenizer.pad_token_id or 0, row), model.scale
