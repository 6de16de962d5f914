"""Train one adapter privately; read from top to bottom: plan, head, steps, the last iterate.

If sampler, clipping, noise, number of steps and accountant were set apart, the claim could differ
from the run. A `PrivatePlan` is fixed before any example is looked at, and epsilon is computed from
the same numbers. It has two stages. The first is a linear head by full-batch gradient descent. If
more than the head is trained, DP-SGD (Abadi et al., 2016) on Poisson samples follows. Both add
Gaussian noise to a sum of clipped gradients. So a step is fully described by its sampling rate and
its noise multiplier. dp-accounting does the accounting: in closed form for steps on all examples,
with privacy loss distributions for sampled steps. Gaussian DP's central limit is not used, because
it reports too little for sampled steps.

Everything that may be known of the result is fixed before any example is looked at. Nothing else
leaves. No part is held out, because a choice among iterates would depend on it. No loss and no
accuracy is reported. The published weights are the last ones. Labels and the number of examples are
public. Randomness comes from the operating system, never from the
tenant's seed, which decides only the adapter's initial values.

A stopped run continues from its checkpoint, with fresh noise for the remaining steps. Steps after
the checkpoint are made again. Their first results were never seen, so the run spends the planned
epsilon and no more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import UNWATCHED, Example, Progress, Stopped, TrainingOptions, Watch
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import fingerprint
from sottovoce.cloud.models.backbone import LoadedBackbone, fast_bfloat16, to_bfloat16
from sottovoce.cloud.models.batches import Dataset, Encoded, collate, encode, padded
from sottovoce.cloud.models.classifier import TextClassifier, encoder_of
from sottovoce.cloud.models.methods import Method, from_options
from sottovoce.cloud.training.dp_sgd.steps import (
    BIAS,
    INSIDE,
    ROW,
    WEIGHT,
    Private,
    RowClassifier,
    RowObjective,
    Sample,
    Trained,
    noisy_mean,
    sample,
)
from sottovoce.cloud.training.run import Checkpoint, Labelled, Result, fit
from sottovoce.core.privacy.gaussian import (
    RELATION,
    Budget,
    Stage,
    epsilon_of_whole,
    with_least_noise,
)
from sottovoce.core.privacy.noise import Random

ACCOUNTANT: Final = "dp-accounting, privacy loss distributions; Gaussian steps in closed form"
HEAD_SHARE: Final = 0.5
"""The head's largest share of epsilon if more is trained after it.

Noise adds up in squares, so half of epsilon costs the later steps an eighth more noise."""


@dataclass(frozen=True, slots=True)
class PrivatePlan:
    """A run and its privacy cost.

    Attributes:
        records: number of examples; public.
        tuning: the stage of all trained parameters, or None if only the head is trained.
    """

    records: int
    budget: Budget
    head: Stage
    tuning: Stage | None

    @classmethod
    def within(
        cls,
        budget: Budget,
        records: int,
        *,
        head: Stage,
        tuning: Stage | None = None,
        head_share: float = HEAD_SHARE,
    ) -> PrivatePlan:
        """Return the plan with the least noise within ``budget``.

        Args:
            head, tuning: the stages; their ``noise`` is replaced.
            head_share: the head's largest share of epsilon if there is ``tuning``.
        """
        alone = tuning is None
        share = budget.epsilon * (1 if alone else head_share)
        found = with_least_noise(
            lambda noise: (_with(head, noise),), Budget(share, budget.delta), epsilon_of
        )
        first = _with(head, found)
        if tuning is None:
            return cls(records, budget, first, None)
        stage = tuning
        rest = with_least_noise(lambda noise: (first, _with(stage, noise)), budget, epsilon_of)
        return cls(records, budget, first, _with(stage, rest))

    @property
    def epsilon(self) -> float:
        """Return the epsilon of the run at the budget's delta, from the plan's numbers."""
        stages = (self.head,) if self.tuning is None else (self.head, self.tuning)
        return epsilon_of(stages, self.budget.delta)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts for ``adapter.json``."""
        return {
            "epsilon": self.epsilon,
            "delta": self.budget.delta,
            "unit": RELATION,
            "accountant": ACCOUNTANT,
            "public": ["labels", "number of examples"],
            **asdict(self),
        }


def _with(stage: Stage, noise: float) -> Stage:
    return Stage(stage.steps, stage.share, noise, stage.clip)


@lru_cache(maxsize=256)
def epsilon_of(stages: tuple[Stage, ...], delta: float) -> float:
    """Return the epsilon of all steps of ``stages`` together."""
    # Steps on all examples equal one step with less noise: exact, in closed form.
    whole = sum(stage.steps / stage.noise**2 for stage in stages if stage.share == 1)
    sampled = [stage for stage in stages if stage.share < 1]
    if not sampled:
        return epsilon_of_whole(stages, delta)
    import dp_accounting  # it brings scipy, which few jobs need
    from dp_accounting import pld

    accountant = pld.PLDAccountant(
        dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE, value_discretization_interval=1e-3
    )
    if whole:
        accountant.compose(dp_accounting.GaussianDpEvent(1 / math.sqrt(whole)))
    for stage in sampled:
        accountant.compose(_event(stage))
    return float(accountant.get_epsilon(delta))


def _event(stage: Stage) -> Any:
    import dp_accounting

    step = dp_accounting.PoissonSampledDpEvent(
        stage.share, dp_accounting.GaussianDpEvent(stage.noise)
    )
    return dp_accounting.SelfComposedDpEvent(step, stage.steps)


HEAD: Final = Stage(steps=50, share=1.0, noise=0.0, clip=0.5)
"""The head's stage, except for its noise, which follows from the budget."""

_RATE: Final = 15.0
_MOMENTUM: Final = 0.9

_HEAD_ROWS: Final = 8192
"""Examples summed at once; with many labels their errors take more memory than the inputs."""


def fit_head(
    features: Tensor, targets: Tensor, labels: int, stage: Stage, random: Random | None = None
) -> tuple[Tensor, Tensor]:
    """Fit a softmax regression: (N, h), (N,) -> weight (C, h), bias (C,).

    Args:
        features: states divided by their typical length.
        labels: C; public.
        stage: of full batches.
        random: for tests only.
    """
    ones = features.new_ones(len(features), 1)
    inputs = torch.cat([features, ones], 1)  # (N, h + 1)
    lengths = inputs.norm(dim=1)  # not a number for broken states, which then count as 0
    inputs = inputs.nan_to_num_(0.0, 0.0, 0.0)
    weight = inputs.new_zeros(labels, inputs.shape[1])
    moving = torch.zeros_like(weight)
    for _ in range(stage.steps):
        # In float64. Over many thousand examples, float32 would round by more than a thousandth of
        # the clip, and differently with one more example.
        summed = torch.zeros_like(weight, dtype=torch.float64)
        for start in range(0, len(inputs), _HEAD_ROWS):
            part, length, target = (
                each[start : start + _HEAD_ROWS] for each in (inputs, lengths, targets)
            )
            errors = torch.softmax(part @ weight.T, 1) - F.one_hot(target, labels).to(part)
            pull = errors.norm(dim=1) * length
            sound = torch.isfinite(pull)[:, None]
            scale = (stage.clip * INSIDE / pull.clamp_min(1e-30)).clamp_max(1.0)[:, None]
            clipped = torch.where(sound, errors * scale, 0.0)
            summed += clipped.double().T @ part.double()
        step = noisy_mean({"": summed}, stage, len(inputs), random)[""].to(weight)
        moving = _MOMENTUM * moving + step
        weight = weight - _RATE * moving
    return weight[:, :-1], weight[:, -1]


_ROWS: Final = 32
"""Texts in a pass."""

_MULTIPLE: Final = 4
"""Each text is padded to a multiple of this number of sub-tokens, from its own length alone.

Rounding depends on the width of a pass. In bfloat16, the effect is large: if one more text changed
the width of other texts' passes, it could move their sum by more than the clip."""

_PROBES, _PROBE_TOKENS = 64, 24


@dataclass(frozen=True, slots=True)
class DpHyperparameters:
    """The defaults, set on phrases of SST-2 (docs/training.md).

    Attributes:
        epochs: average number of steps with a given example.
        share: of the examples expected in a step, up to `most`. Noise is drawn once for all of
            them, so a few large steps learn more than many small ones.
        most: largest number of examples expected in a step.
        clip: largest influence of one example on a step.
        faster: factor from the method's usual rate to Adam's initial rate, for method and head
            alike; the rate falls to 0 in equal steps.
        head_share: largest share of epsilon for the head.
    """

    epochs: int = 4
    share: float = 0.1
    most: int = 1024
    clip: float = 0.5
    faster: float = 5.0
    head_share: float = HEAD_SHARE
    bfloat16: bool = True
    checkpoint_seconds: float = 20.0

    def plan(self, options: TrainingOptions, records: int) -> PrivatePlan:
        """Return the plan for ``records`` examples, with its cost.

        Raises:
            InvalidInput: see `Budget.of` and `PrivatePlan.within`.
        """
        budget = Budget.of(options.dp_epsilon, options.dp_delta, records)
        if from_options(options).head_alone:
            return PrivatePlan.within(budget, records, head=HEAD)
        usual = min(self.share, self.most / records)
        share = min(1.0, options.batch_size / records) if options.batch_size else usual
        steps = math.ceil((options.epochs or self.epochs) / share)
        tuning = Stage(steps, share, 0.0, self.clip)
        return PrivatePlan.within(
            budget, records, head=HEAD, tuning=tuning, head_share=self.head_share
        )


def train_private(
    examples: Sequence[Example],
    options: TrainingOptions,
    backbone: LoadedBackbone,
    folder: Path,
    *,
    resume: Path | None = None,
    watch: Watch = UNWATCHED,
    origin: Mapping[str, Any] | None = None,
    recipe: DpHyperparameters | None = None,
) -> Result:
    """Train an adapter within ``options.dp_epsilon`` and save it to ``folder``.

    Args and errors are the same as in `sottovoce.cloud.training.trainer.train`. The guarantee
    (epsilon, delta, unit, accountant, plan) is in ``adapter.json``, as ``origin.private``.
    """
    recipe = recipe or DpHyperparameters()
    started = time.monotonic()

    plan = recipe.plan(options, len(examples))
    data = Dataset.of(examples, options, backbone.tokenizer)
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        method = from_options(options)
        model, start = begin(backbone, method, device, recipe.bfloat16)
        run = fingerprint(data.labels, options, recipe, plan, backbone.sha256)
        point = Checkpoint.load(resume, run) if resume else None
        if point is None:
            seen = features(model, data.alone, data.pad, start.get(ROW), watch.go_on)
            weight, bias = fit_head(seen, data.targets, len(data.labels), plan.head)
            trained = Trained({**start, WEIGHT: weight.to(device), BIAS: bias.to(device)})
            point = Checkpoint.first({}, 0.0, 0.0)
            optimizer = _adam(trained)
        else:
            shape = len(data.labels), backbone.hidden_size
            empty = {WEIGHT: torch.zeros(shape), BIAS: torch.zeros(shape[0])}
            trained = Trained({n: t.to(device) for n, t in {**start, **empty}.items()})
            optimizer = _adam(trained)
            point.into(trained, optimizer)

        steps = plan.tuning.steps if plan.tuning else 0
        began, first, saved = time.monotonic(), point.step, time.monotonic()

        def save() -> None:
            nonlocal saved
            if resume:
                point.save(resume, run, trained, optimizer)
                saved = time.monotonic()
                watch.kept()

        def batches(stage: Stage) -> Iterator[Sample]:
            for _ in range(first, stage.steps):
                watch.go_on()
                yield pieces(data, sample(len(examples), stage.share), device)

        if plan.tuning is not None:
            update = Private(trained, optimizer, plan.tuning, len(examples))
            rate = options.learning_rate or recipe.faster * method.learning_rate
            rates = (rate * (1 - step / steps) for step in range(first, steps))
            try:
                for _ in fit(RowObjective(model, trained), batches(plan.tuning), rates, update):
                    point.step += 1
                    if time.monotonic() - saved > recipe.checkpoint_seconds:
                        save()
                    watch.told(_progress(point.step, first, plan.tuning, began))
            except Stopped:
                save()
                raise
        else:
            watch.told(Progress(1, 1, 1, 1))
        finished = _finished(backbone, method, model, trained, len(data.labels))
    facts = {**(origin or {}), "private": plan.to_dict()}
    adapters.save(folder, finished, data.labels, backbone, facts)
    epochs = round(steps * plan.tuning.share) if plan.tuning else 1
    return Result(folder, data.labels, 0.0, 0, epochs, time.monotonic() - started)


def begin(
    backbone: LoadedBackbone, method: Method, device: torch.device, bfloat16: bool
) -> tuple[RowClassifier, dict[str, Tensor]]:
    """Return the frozen encoder, and the adapter's initial numbers: {} for the head alone."""
    encoder = encoder_of(backbone.model).requires_grad_(False)
    adapted = method.build(encoder)
    tensors = {name: t.detach().clone() for name, t in adapted.tensors().items()}
    # The built-in method is removed again: copies of it join each pass as rows.
    encoder = adapted.encoder.unload() if hasattr(adapted.encoder, "unload") else encoder
    encoder.requires_grad_(False).to(device).eval()
    row = method.row(encoder, tensors)
    start = {ROW: row.numbers.float().to(device)} if tensors else {}
    if device.type == "cpu" and bfloat16 and fast_bfloat16():
        to_bfloat16(encoder)
    model = RowClassifier(encoder, row, 1.0)
    return replace(model, scale=_typical_length(model, backbone, start.get(ROW))), start


@torch.no_grad()
def _typical_length(model: RowClassifier, backbone: LoadedBackbone, row: Tensor | None) -> float:
    """Return a pooled state's typical length from random tokens, so it reveals no example."""
    words = len(backbone.tokenizer)
    drawn = torch.randint(
        words, (_PROBES, _PROBE_TOKENS), generator=torch.Generator().manual_seed(0)
    )
    texts = backbone.tokenizer.batch_decode(drawn, skip_special_tokens=True)
    batch = collate(encode(backbone.tokenizer, texts), backbone.tokenizer.pad_token_id or 0)
    device = next(model.encoder.parameters()).device
    copies = None if row is None else row.expand(_PROBES, *row.shape)
    return float(model.states(copies, batch.to(device)).norm(dim=1).mean())


@torch.no_grad()
def features(
    model: RowClassifier,
    texts: Sequence[Encoded],
    pad: int,
    row: Tensor | None = None,
    go_on: Callable[[], None] = lambda: None,
) -> Tensor:
    """Return a head's inputs for every text, before any tuning: Float (N, h), on the CPU.

    Args:
        texts: at least one.
        row: numbers that join every pass.
        go_on: called before every pass, and may raise.
    """
    found: Tensor | None = None
    device = next(model.encoder.parameters()).device
    for places in _passes(texts, range(len(texts))):
        go_on()
        copies = None if row is None else row.expand(len(places), *row.shape)
        batch = collate([texts[at] for at in places], pad, multiple=_MULTIPLE)
        states = model.states(copies, batch.to(device)).cpu()
        if found is None:
            found = torch.empty(len(texts), states.shape[1])
        found[places] = states
    assert found is not None
    return found


def pieces(data: Dataset, rows: Sequence[int], device: torch.device) -> list[Labelled]:
    """Return a sample as passes over texts of similar length."""
    return [
        Labelled(data.batch(chunk, multiple=_MULTIPLE), data.targets[chunk]).to(device)
        for chunk in _passes(data.alone, rows)
    ]


def _passes(texts: Sequence[Encoded], rows: Iterable[int]) -> Iterator[list[int]]:
    """Yield the indices of texts for one pass, all of the same padded width."""

    def width(at: int) -> int:
        return padded(len(texts[at].ids), _MULTIPLE)

    for _, alike in groupby(sorted(rows, key=width), width):
        together = list(alike)
        for start in range(0, len(together), _ROWS):
            yield together[start : start + _ROWS]


def _adam(trained: Trained) -> torch.optim.Optimizer:
    return torch.optim.Adam(trained.values.values())


def _progress(done: int, first: int, stage: Stage, began: float) -> Progress:
    """Return the progress in steps only, because a loss would reveal the examples."""
    taken = time.monotonic() - began
    return Progress(
        epoch=math.ceil(done * stage.share),
        epochs=math.ceil(stage.steps * stage.share),
        step=done,
        steps=stage.steps,
        seconds_left=(stage.steps - done) * taken / max(1, done - first),
    )


@torch.no_grad()
def _finished(
    backbone: LoadedBackbone, method: Method, model: RowClassifier, trained: Trained, labels: int
) -> TextClassifier:
    """Return the last iterate in the form of any other adapter."""
    values = trained.values
    whole = TextClassifier(backbone, method, labels)
    if ROW in values:
        learnt = method.tensors(model.template.holding(values[ROW]))
        for name, tensor in whole.adapted.tensors().items():
            tensor.copy_(learnt[name])
    whole.head.weight.copy_(values[WEIGHT] / model.scale)
    whole.head.bias.copy_(values[BIAS])
    return whole
