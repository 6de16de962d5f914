"""Train one classifier; read from top to bottom: data, model, loop, result.

The trainer knows no server, database or tenant: it turns examples into a folder. So the same
function runs in a worker, on a laptop and in a test.

The design, in order:

1. *Probe, then tune.* The linear head starts as a logistic regression on the frozen backbone's
   pooled states (see `probe`). Label words need no probe, nor does a job that continues from an
   adapter.
2. *Method and head* (see ``methods``). AdamW with linear warm-up and decay, batches of similar
   length (see `Plan`), the frozen part in bfloat16 on fast hardware (see `precision`). `run.py`
   scores, keeps and resumes.
3. *Reconstruction* (RAPT v2, eq. 5-9), for jobs with plain tokens. `Objective` adds its loss. Forty
   plain tokens before a ten-word text make a step four times as expensive. So only every k-th batch
   has them, with the smallest k within ``reconstruction_cost``; for long texts every batch has
   them. Predictions use the text alone. docs/training.md shows the gain.
4. *Best weights.* The kept weights have the best held-out accuracy, then the smallest loss.

All random choices depend on (seed, epoch) only, so a resumed run gives the same weights as an
uninterrupted one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import UNWATCHED, Example, Job, TrainingOptions, Watch
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import Adapter, fingerprint
from sottovoce.cloud.models.backbone import (
    LabelWords,
    LoadedBackbone,
    computing,
    fast_bfloat16,
    to_bfloat16,
)
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.classifier import TextClassifier, pool
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.store.adapters import AdapterFiles, with_files
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.training.run import Checkpoint, Labelled, Objective, Plan, Result, Run
from sottovoce.core.errors import BundleMismatch


@dataclass(frozen=True, slots=True)
class Base:
    """An adapter to continue from, and the hash of its files."""

    adapter: Adapter
    sha256: str

    @classmethod
    def of(cls, database: Database, job: Job) -> Self | None:
        """Return the adapter that a job continues from; None for a new one.

        Raises:
            NotFound: the adapter was deleted. DataLoss: it is damaged.
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
        """Copy the adapter into ``model``, which has the same method and labels.

        Raises:
            BundleMismatch: the adapter has another backbone, or is of another kind.
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
    """Fit a logistic regression: (N, h), (N,) -> weight (C, h), bias (C,).

    Args:
        labels: C; some may be missing from the targets.
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


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """The defaults, set on the helpdesk examples (498 messages, six labels).

    At level balanced two epochs gave .960 of the 126 test messages, .931 held out. The probe's
    penalty matters under noise. At .01 it memorises replaced words (.62 in cross-validation on
    short messages), at .3 to 1 it does not (.67).
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
    reconstruction_cost: float = 0.45  # additional sub-tokens, as a share of the texts'
    bfloat16: bool = True  # on a CPU with fast bfloat16
    checkpoint_seconds: float = 20.0

    def plan(self, options: TrainingOptions, rows: Sequence[int], lengths: Sequence[int]) -> Plan:
        """Return the steps over the examples at ``rows``; ``lengths`` as in `Plan`."""
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

    def every(self, overhead: float) -> int:
        """Return k: every k-th batch has plain tokens; ``overhead`` as in `Dataset`."""
        return max(1, math.ceil(overhead / self.reconstruction_cost))


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
    """Train an adapter on ``examples`` and save it to ``folder``.

    Args:
        examples: at least 8, of 2 labels or more, each label at least twice.
        options: the tenant's choices; zeros take ``recipe``'s.
        backbone: a freshly loaded model; is changed, because the method is built into it.
        folder: is created; an existing one is replaced after training has succeeded.
        base: the adapter to continue from, if ``options.continues``; its labels are used.
        labels: the adapter's labels, unless they follow from the examples.
        resume: checkpoint file; read if it fits this run, and updated.
        origin: facts for ``adapter.json`` (bundle, release settings).

    Raises:
        NotReady: the examples cannot train (see `check_labels`).
        InvalidInput: the backbone does not support the options (see ``LabelWords.of``).
        Stopped: ``watch`` ended the run.
        SottovoceError: the loss is not a finite number.
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
        # Dropout stays off: the backbone's pre-trained states are best, and training is a third
        # faster.
        model.to(device).eval()
        if device.type == "cpu" and recipe.bfloat16 and fast_bfloat16():
            to_bfloat16(model.encoder)
        optimizer = torch.optim.AdamW(model.trained().values(), weight_decay=recipe.weight_decay)
        rate = options.learning_rate or model.method.learning_rate
        weight = options.reconstruction_weight or recipe.reconstruction_weight
        every = recipe.every(data.overhead)

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
    """Return the head's inputs for the texts at ``rows``: Float (len(rows), h), on the CPU.

    ``go_on`` is called before every batch and may raise: a job's texts take minutes.
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
    """Return accuracy and loss on the held-out part; zeros without one."""
    if not data.held:
        return 0.0, 0.0
    features = states(model, data, data.held, go_on).to(model.head.weight.device)
    logits, wanted = model.head(features).cpu(), data.targets[data.held]
    loss = F.cross_entropy(logits, wanted).item()
    return (logits.argmax(1) == wanted).float().mean().item(), loss
