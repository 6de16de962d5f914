"""Trains one adapter, readable from top to bottom: data, model, loop, result.

It knows no server, no database and no tenant: examples come in, a folder comes out, so the same
function runs in a worker, on a laptop and in a test.

The design, in order:

1. *Probe first, then tune.* The linear head starts as a logistic regression on the frozen
   backbone's pooled states (see ``linear_probe``). Words of labels need none, nor does a job that
   goes on from an adapter.
2. *The method + head* (see ``methods``), AdamW, linear warm-up and decay, batches of similar length
   (see ``schedule``), the frozen part in bfloat16 where that is fast (see ``precision``); scored,
   kept and resumed as `sottovoce.cloud.training.run` does it.
3. *Reconstruction* (RAPT v2, eq. 5-9), where the job has plain tokens: `Objective` adds its loss.
   Forty of them before a ten-word text cost four times the step, so they stand before every k-th
   batch only, k as small as keeps their cost within ``reconstruction_cost``: before all of long
   texts. Predictions are made for text alone. docs/training.md has what it gains.
4. The weights kept are those with the best held-out accuracy, then loss.

Everything random is a function of (seed, epoch), so a run that is stopped and resumed from its
checkpoint gives the same weights as one that is not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import Example, Job, TrainingOptions
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import Adapter, fingerprint
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.classifier import TextClassifier, pool
from sottovoce.cloud.models.label_words import LabelWords
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.models.precision import computing, fast_bfloat16, to_bfloat16
from sottovoce.cloud.store.adapters import AdapterFiles, with_files
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.training.checkpoint import Checkpoint
from sottovoce.cloud.training.dataset import Dataset
from sottovoce.cloud.training.fit import Labelled, Objective, Plan
from sottovoce.cloud.training.run import UNWATCHED, Result, Run, Watch
from sottovoce.core.errors import BundleMismatch

__all__ = ["Base", "Hyperparameters", "probe", "train"]


@dataclass(frozen=True, slots=True)
class Base:
    """An adapter to go on from, and the digest of its files."""

    adapter: Adapter
    sha256: str

    @classmethod
    def of(cls, database: Database, job: Job) -> Self | None:
        """The one of a job; None where it begins anew.

        Raises:
            NotFound: it is gone. DataLoss: it is damaged.
        """
        if not job.training.continues:
            return None
        return with_files(database, job.tenant, job.adapter, cls._read)

    @classmethod
    def _read(cls, files: AdapterFiles) -> Self:
        with files.opened() as folder:
            return cls(adapters.load(folder), files.sha256)

    @torch.no_grad()
    def into(self, model: TextClassifier, backbone: LoadedBackbone) -> None:
        """Has ``model``, of the same method and labels, begin as this.

        Raises:
            BundleMismatch: it was trained over another backbone, or is of another kind.
        """
        mine = {**model.adapted.tensors(), **model.head_tensors()}
        heads = {"weight": self.adapter.weight, "bias": self.adapter.bias}
        theirs = {**self.adapter.tensors, **{n: t for n, t in heads.items() if t is not None}}
        alike = mine.keys() == theirs.keys() and all(
            theirs[name].shape == tensor.shape for name, tensor in mine.items()
        )
        if self.adapter.backbone_sha256 != backbone.sha256 or not alike:
            raise BundleMismatch(
                "the adapter was trained over another backbone, or otherwise",
                fix="train it anew",
                subject="adapter",
            )
        for name, tensor in mine.items():
            tensor.copy_(theirs[name])


def probe(features: Tensor, targets: Tensor, penalty: float, labels: int) -> tuple[Tensor, Tensor]:
    """Logistic regression: (N, h), (N,) -> weight (C, h), bias (C,).

    Args:
        features: states.
        targets: places of labels.
        penalty: of the squared weights.
        labels: C; not every one need be among the targets.
    """
    centre, spread = features.mean(0), features.std(0) + 1e-6
    scaled = (features - centre) / spread
    weight = torch.zeros(labels, features.shape[1], requires_grad=True)
    bias = torch.zeros(weight.shape[0], requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = F.cross_entropy(scaled @ weight.T + bias, targets)
        loss = loss + penalty * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    solver.step(closure)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        weight = weight / spread
        return weight, bias - weight @ centre


_ROWS: Final = 32
"""Texts in a forward pass without gradients."""


class Fronted(Protocol):
    """Data of which examples can have plain tokens in front."""

    @property
    def overhead(self) -> float:
        """Sub-tokens that these add, as a share of those without."""


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The defaults, set on the helpdesk examples (498 messages, six labels).

    At level balanced two epochs gave .960 of the 126 test messages, .931 held out.
    The probe's penalty matters under noise: at .01 it learns replaced words by
    heart (.62 in cross-validation on short messages), at .3 to 1 it does not (.67).
    """

    epochs: int = 2
    least_steps: int = 50  # small jobs get more epochs
    batch_size: int = 16
    weight_decay: float = 0.01
    warmup: float = 0.06
    clip: float = 1.0
    probe_penalty: float = 0.5
    reconstruction_weight: float = 0.1
    reconstruction_width: int = 96
    reconstruction_cost: float = 0.45  # sub-tokens it may add, as a share of the texts'
    bfloat16: bool = True  # on a CPU, where it is fast
    checkpoint_seconds: float = 20.0

    def plan(self, options: TrainingOptions, rows: Sequence[int], lengths: Sequence[int]) -> Plan:
        """The steps over the examples at ``rows``; ``lengths`` are of all examples, see `Plan`."""
        return Plan(
            rows,
            lengths,
            size=options.batch_size or self.batch_size,
            epochs=options.epochs,
            least_epochs=self.epochs,
            least_steps=self.least_steps,
            seed=options.seed,
            warmup=self.warmup,
        )

    def every(self, data: Fronted) -> int:
        """Of how many batches one has plain tokens."""
        return max(1, math.ceil(data.overhead / self.reconstruction_cost))


def train(
    examples: Sequence[Example],
    options: TrainingOptions,
    backbone: LoadedBackbone,
    folder: Path,
    *,
    base: Base | None = None,
    labels: tuple[str, ...] | None = None,
    resume: Path | None = None,
    watch: Watch = UNWATCHED,
    origin: Mapping[str, Any] | None = None,
    recipe: Hyperparameters | None = None,
) -> Result:
    """Trains an adapter on ``examples`` and writes it to ``folder``.

    Args:
        examples: at least 8, of 2 labels or more, each label at least twice.
        options: the tenant's choices; zeros take ``recipe``'s.
        backbone: a freshly loaded model; the method is built into it, so it is spent.
        folder: made new; any there is replaced once training has succeeded.
        base: to go on from, where ``options.continues``; its labels are the adapter's.
        labels: what the adapter may answer, where that is not to follow from the examples.
        resume: checkpoint file; read if it fits this run, written as it goes on.
        watch: who is told, and may end it.
        origin: facts kept in ``adapter.json`` (bundle, release settings).
        recipe: the trainer's own constants.

    Raises:
        NotReady: the examples cannot train (see `check_labels`).
        InvalidInput: the backbone cannot do what the options ask (see ``LabelWords.of``).
        Stopped: ``watch`` said so.
        SottovoceError: the loss is no longer a number.
        Unavailable: the disk is full.
    """
    recipe = recipe or Hyperparameters()
    started = time.monotonic()
    go_on = watch.go_on

    label_words = None
    if options.label_words:
        label_words = LabelWords.of(backbone, sorted({e.label for e in examples}))
    cue = label_words.cue if label_words else ()
    labels = base.adapter.labels if base else labels
    data = Dataset.of(examples, options, backbone.tokenizer, cue, labels)
    plan = recipe.plan(options, data.train, [len(row.ids) for row in data.alone])

    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = TextClassifier(
            backbone,
            from_options(options),
            len(data.labels),
            vocabulary=len(data.vocabulary),
            width=options.reconstruction_width or recipe.reconstruction_width,
            words=label_words.weight(backbone) if label_words else None,
        )
        if base:
            base.into(model, backbone)
        # Dropout stays off: the backbone's pre-trained states are the best there are, and it is
        # a third faster.
        model.to(device).eval()
        if device.type == "cpu" and recipe.bfloat16 and fast_bfloat16():
            to_bfloat16(model.encoder)
        optimizer = torch.optim.AdamW(model.trained().values(), weight_decay=recipe.weight_decay)
        rate = options.learning_rate or model.method.learning_rate
        weight = options.reconstruction_weight or recipe.reconstruction_weight
        every = recipe.every(data)

        begun = [base.sha256] if base else []
        facts = (options, recipe, rate, backbone.sha256, len(examples), *begun)
        run = Run(
            fingerprint(data.labels, *facts),
            plan,
            rate,
            recipe.clip,
            resume,
            recipe.checkpoint_seconds,
        )
        point = run.checkpoint()
        if point is None:
            if label_words is None and base is None:
                features = states(model, data, data.train, go_on)
                targets = data.targets[data.train]
                found = probe(features, targets, recipe.probe_penalty, len(data.labels))
                model.restore({"head.weight": found[0], "head.bias": found[1]})
            point = Checkpoint.first(model.trained(), *score(model, data, go_on))
        else:
            point.into(model, optimizer)

        def batch(at: int) -> Labelled:
            rows, with_plain = plan.rows(at), options.reconstruction and at % every == 0
            return Labelled(data.batch(rows, plain=with_plain), data.targets[rows]).to(device)

        run.follow(
            Objective(model, weight),
            model,
            optimizer,
            point,
            batch,
            lambda: score(model, data, go_on),
            watch,
        )
    adapters.save(folder, model, data.labels, backbone, dict(origin or {}), label_words)
    taken = time.monotonic() - started
    return Result(folder, data.labels, point.accuracy, len(data.held), plan.epochs, taken)


@torch.no_grad()
def states(
    model: TextClassifier,
    data: Dataset,
    rows: Sequence[int],
    go_on: Callable[[], None] = lambda: None,
) -> Tensor:
    """What the head sees of the texts at ``rows``: Float (len(rows), h), on the CPU.

    ``go_on`` is called before every batch and may raise: all texts of a job take minutes.
    """
    device = next(model.parameters()).device
    found = torch.empty(len(rows), model.head.in_features)
    by_length = sorted(range(len(rows)), key=lambda at: len(data.alone[rows[at]].ids))
    for start in range(0, len(rows), _ROWS):
        go_on()
        places = by_length[start : start + _ROWS]
        batch = data.batch([rows[at] for at in places]).to(device)
        with computing(model.encoder):
            found[places] = pool(model.states(batch), batch.text).float().cpu()
    return found


@torch.no_grad()
def score(
    model: TextClassifier, data: Dataset, go_on: Callable[[], None] = lambda: None
) -> tuple[float, float]:
    """Accuracy and loss on the part held out; zeros where there is none."""
    if not data.held:
        return 0.0, 0.0
    features = states(model, data, data.held, go_on).to(model.head.weight.device)
    logits, wanted = model.head(features).cpu(), data.targets[data.held]
    loss = F.cross_entropy(logits, wanted).item()
    return (logits.argmax(1) == wanted).float().mean().item(), loss
