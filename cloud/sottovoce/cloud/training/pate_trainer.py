"""Train one adapter by PATE; read from top to bottom: shares, votes, answers, student.

Teachers are heads on the frozen backbone. Each learns from a separate share of the labelled
examples (see `sottovoce.core.privacy.votes`). They vote on the public texts, which have no labels.
The noisy answers are written down, and the student learns from nothing else. It is trained by the
usual trainer, with any method, any number of times. All choices of that trainer (held-out part,
kept weights, reported losses) concern public texts and answers, and cost no more privacy.

Each share has separate passes, so not even rounding carries a record into another teacher's vote.
Answers are drawn once. A run that stopped before writing the answers draws shares and noise again;
the first draws were never seen. A run that stopped later continues from the file. The student's
checkpoint is named after its answers, so two draws never mix.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from sottovoce.cloud.job import UNWATCHED, Example, TrainingOptions, Watch
from sottovoce.cloud.models.adapters import fingerprint
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import encode
from sottovoce.cloud.models.methods.interface import Head
from sottovoce.cloud.training.dp_sgd.trainer import begin, features
from sottovoce.cloud.training.run import Result
from sottovoce.cloud.training.trainer import Hyperparameters, train
from sottovoce.core.errors import NotReady
from sottovoce.core.platform.files import full_disk_is_unavailable, in_place_of
from sottovoce.core.privacy.gaussian import Budget
from sottovoce.core.privacy.votes import Ints, VotePlan, ask, deal, tally
from sottovoce.core.rpc.limits import FEWEST_EXAMPLES

_PENALTY: Final = 1.0
"""Penalty of a teacher's ridge regression; its inputs have a length of about 1."""


def standardised(features: Tensor, public: Tensor) -> Tensor:
    """Return the teachers' inputs, of length about 1 and with a final 1: (N, h) -> (N, h + 1).

    Args:
        features: of a share, or of the public texts.
        public: states of the public texts, which alone determine the mean, Float (Q, h).
    """
    scaled = (features - public.mean(0)) / (public.std(0) + 1e-6) / public.shape[1] ** 0.5
    return torch.cat([scaled, scaled.new_ones(len(scaled), 1)], 1)


def fit_teacher(features: Tensor, targets: Tensor, labels: int) -> Tensor:
    """Fit a ridge regression on one share: (n, h), (n,) -> weight (h, C)."""
    wanted = torch.nn.functional.one_hot(targets, labels).to(features) - 1 / labels
    products = features @ features.T + _PENALTY * torch.eye(len(features)).to(features)
    weight: Tensor = features.T @ torch.linalg.solve(products, wanted)
    return weight


_FILE: Final = "answers.json"


def train_pate(
    examples: Sequence[Example],
    options: TrainingOptions,
    backbone: LoadedBackbone,
    folder: Path,
    *,
    resume: Path | None = None,
    watch: Watch = UNWATCHED,
    origin: Mapping[str, Any] | None = None,
    recipe: Hyperparameters | None = None,
) -> Result:
    """Train an adapter within ``options.dp_epsilon`` and save it to ``folder``.

    Args and errors are the same as in `sottovoce.cloud.training.trainer.train`; examples without a
    label are the public texts. The guarantee is in ``adapter.json``, as ``origin.private``.

    Raises:
        NotReady: too few texts were answered to train a student.
    """
    private = [example for example in examples if example.label]
    public = [example.text for example in examples if not example.label]
    labels = tuple(sorted({example.label for example in private}))
    budget = Budget.of(options.dp_epsilon, options.dp_delta, len(private))
    plan = VotePlan.within(budget, len(private), len(public))
    public = public[: plan.check.steps]

    run = fingerprint(labels, plan, backbone.sha256, public)
    file = resume.with_name(_FILE) if resume else None
    answers = _written(file, run) if file else None
    if answers is None:
        answers = _drawn(private, public, labels, backbone, plan, watch.go_on)
        if file:
            _write(file, run, answers)
            watch.kept()
    if len(answers) < FEWEST_EXAMPLES:
        raise NotReady(
            f"the teachers agreed on {len(answers)} of {len(public)} public texts, which is too "
            "few to learn from",
            fix="give more examples, public texts more like them, or a larger epsilon",
            subject="examples",
        )
    digest = hashlib.sha256(json.dumps([run, sorted(answers.items())]).encode()).hexdigest()
    return train(
        [Example(public[at], labels[label]) for at, label in sorted(answers.items())],
        replace(options, dp_epsilon=0.0, dp_delta=0.0, pate=False),
        backbone,
        folder,
        labels=labels,
        resume=resume.with_name(f"{digest[:16]}.safetensors") if resume else None,
        watch=watch,
        origin={**(origin or {}), "private": plan.to_dict()},
        recipe=recipe,
    )


def _drawn(
    private: Sequence[Example],
    public: Sequence[str],
    labels: Sequence[str],
    backbone: LoadedBackbone,
    plan: VotePlan,
    go_on: Callable[[], None],
) -> dict[int, int]:
    """Return the answers: label indices, by index of the public text."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, _ = begin(backbone, Head(), device, bfloat16=False)
    pad = backbone.tokenizer.pad_token_id or 0
    index = {label: at for at, label in enumerate(labels)}

    def states(texts: Sequence[str]) -> Tensor:
        return features(model, encode(backbone.tokenizer, texts), pad, go_on=go_on)

    asked = states(public)
    inputs = standardised(asked, asked)

    def votes() -> Iterator[Ints]:
        for share in deal(len(private), plan.teachers):
            if share:
                seen = standardised(states([private[at].text for at in share]), asked)
                targets = torch.tensor([index[private[at].label] for at in share])
                weight = fit_teacher(seen, targets, len(labels))
                yield (inputs @ weight).argmax(1).cpu().numpy()

    return ask(tally(votes(), len(public), len(labels)), plan)


def _written(file: Path, run: str) -> dict[int, int] | None:
    """Return the answers in ``file``; None if they belong to another run or are missing."""
    try:
        facts = json.loads(file.read_text())
    except (OSError, ValueError):
        return None
    if facts["run"] != run:
        return None
    return {int(at): label for at, label in facts["answers"].items()}


def _write(file: Path, run: str, answers: Mapping[int, int]) -> None:
    with full_disk_is_unavailable():
        file.parent.mkdir(exist_ok=True)
        with in_place_of(file) as aside:
            aside.write_text(json.dumps({"run": run, "answers": answers}))
