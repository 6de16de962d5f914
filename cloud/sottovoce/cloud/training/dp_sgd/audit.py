"""Audit private training: plant canaries by coins, train, guess the coins from the adapter.

The bound is strong only if the guesses are good. Three things make them good. First, a canary has
the label that a head trained without canaries finds least likely, so each pulls as hard as the clip
allows. Second, the measure is the distance between the adapter's head and a head without canaries
and noise. Third, this distance is divided among all canaries at once, by least squares, because
one canary's pull also moves the head along the others. None of these steps looks at a coin.

The promise treats the number of examples as public. It reveals how many coins fell, but not which.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Example, Progress, TrainingOptions, Watch
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import encode
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.training.dp_sgd.steps import RowClassifier
from sottovoce.cloud.training.dp_sgd.trainer import HEAD, begin, features, fit_head, train_private
from sottovoce.core.errors import InvalidInput

CONFIDENCE: Final = 0.95

_SHARES: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the canaries to guess: the surest. Each share is a separate test with its cost."""

_TOLERANCE: Final = 1e-4

Floats = NDArray[np.floating]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Bound:
    """The result of an audit.

    Attributes:
        epsilon: a lower bound; 0 if nothing was shown.
        confidence: over the coins and the training.
        guesses, right: of the test with the highest bound.
    """

    epsilon: float
    confidence: float
    canaries: int
    guesses: int
    right: int


def probability(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest P(at least ``right`` guesses are right) under (epsilon, delta)-privacy.

    Theorem 5.2 of the paper: each guess is right with probability e^eps / (1 + e^eps) at most,
    independently, and delta adds 2 m delta max_i P(v > Bin >= v - i) / i.

    Args:
        canaries: m, each trained on by an independent fair coin.
        guesses: r, the number of guessed coins; the others are not guessed.
        right: v, the number of right guesses.
        epsilon, delta: claimed.
    """
    chance = 1 / (1 + math.exp(-epsilon))
    exact = float(binom.sf(right - 1, guesses, chance))
    if not delta or not right:
        return min(1.0, exact)
    below = np.cumsum(binom.pmf(right - np.arange(1, right + 1), guesses, chance))
    most = float((below / np.arange(1, right + 1)).max())
    return min(1.0, exact + 2 * canaries * delta * most)


def epsilon_at_least(
    canaries: int, guesses: int, right: int, delta: float, confidence: float = CONFIDENCE
) -> float:
    """Return the largest epsilon that the guesses refute, rounded down; see `probability`."""

    def refuted(epsilon: float) -> bool:
        return probability(canaries, guesses, right, epsilon, delta) < 1 - confidence

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2 * high
    while high - low > _TOLERANCE:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def bound(scores: Floats, planted: Bools, delta: float) -> Bound:
    """Guess the coins from how much an adapter favours each canary, and return the bound.

    The canaries with the highest scores are guessed to be in the training set, and equally many
    with the lowest scores to be outside. This is done for several numbers of guesses. Every number
    is a test, and the tests share the permitted error.

    Args:
        scores: Floats1d (m,), larger if the adapter seems to have seen the canary.
        planted: Bools1d (m,), the coins.
        delta: claimed.
    """
    order = np.argsort(scores, kind="stable")
    each = 1 - (1 - CONFIDENCE) / len(_SHARES)
    found = []
    for share in _SHARES:
        half = int(share * len(scores) / 2)
        out, inside = order[:half], order[len(order) - half :]
        right = int((~planted[out]).sum() + planted[inside].sum())
        epsilon = epsilon_at_least(len(scores), 2 * half, right, delta, each)
        found.append(Bound(epsilon, CONFIDENCE, len(scores), 2 * half, right))
    return max(found, key=lambda shown: shown.epsilon)


CANARIES: Final = 256
"""Number of canaries. Above the number of the head's inputs, pulls are indistinguishable."""

FEWEST_CANARIES: Final = 16

_RIDGE: Final = 0.1
"""Penalty of the least squares, relative to a canary's pull along itself."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The claim and the lower bound."""

    claimed: float
    delta: float
    shown: Bound

    @property
    def holds(self) -> bool:
        """Return whether the claim was not refuted."""
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
    """Train once with canaries among the examples, and return the claim and the bound.

    Args:
        examples: the canaries are taken from these, and get a wrong label.
        options: of the audited job; with an epsilon.
        open_backbone: returns a freshly loaded backbone.
        random: for tests only.

    Raises:
        InvalidInput: too few examples for the canaries, or no epsilon is claimed.
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
    """Return the label that a head finds least likely: (m, h), (C, h), (C,) -> Int (m,)."""
    return (states @ weight.T + bias).argmin(1)


def pulls(states: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return how much each canary has pulled a head: Float64 (m,).

    A canary x of label y pulls along (e_y - 1/C) (x, 1)^T. The result is the least-squares
    combination of these directions that explains the head's movement.

    Args:
        states: of the canaries, Float (m, h).
        labels: of the canaries, Int (m,).
        weight, bias: the head's movement, Float (C, h) and (C,).
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
    """Return the head's inputs for every text, from an adapter's tensors, and their scale."""
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
