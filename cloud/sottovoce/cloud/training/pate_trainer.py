"""Trains one adapter by PATE, readable from top to bottom: shares, votes, answers, student.

Teachers are heads on the frozen backbone, each on its own share of the labelled examples (see
`sottovoce.core.privacy.votes`). They vote on the public texts, those without a label; the answers,
noise and all, are written down, and the student learns from nothing else, by the usual trainer with
any method, any number of times. So the trainer's own choices (what is held out, which weights are
kept, the losses it tells) are about public texts and answers, and cost nothing more.

A share is worked through in passes of its own: not even rounding carries a record into another
teacher's vote. What was answered is drawn once. A run that stopped before it was written down draws
shares and noise anew, and nobody has seen the first; one that stopped after it goes on from the
file. The student's checkpoint is named after its answers, so that it never mixes two draws.
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

from sottovoce.cloud.disk import full_disk_is_unavailable
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models.adapters import fingerprint
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import encode
from sottovoce.cloud.models.methods.head import Head
from sottovoce.cloud.training.dp_sgd.trainer import begin, features
from sottovoce.cloud.training.run import UNWATCHED, Result, Watch
from sottovoce.cloud.training.trainer import Hyperparameters, train
from sottovoce.core.errors import NotReady
from sottovoce.core.platform.files import in_place_of
from sottovoce.core.privacy.gaussian import Budget
from sottovoce.core.privacy.votes import Ints, VotePlan, ask, deal, tally
from sottovoce.core.rpc.limits import FEWEST_EXAMPLES

__all__ = ["fit_teacher", "standardised", "train_pate"]

_PENALTY: Final = 1.0
"""Of a teacher's ridge regression, its inputs being of length 1 or so."""


def standardised(features: Tensor, public: Tensor) -> Tensor:
    """States as teachers see them, with a 1 at the end: (N, h) -> (N, h + 1), of length 1 or so.

    Args:
        features: of a share, or of the public texts.
        public: of the public texts, which alone say where the middle is, Float (Q, h).
    """
    scaled = (features - public.mean(0)) / (public.std(0) + 1e-6) / public.shape[1] ** 0.5
    return torch.cat([scaled, scaled.new_ones(len(scaled), 1)], 1)


def fit_teacher(features: Tensor, targets: Tensor, labels: int) -> Tensor:
    """Ridge regression on one share, in closed form: (n, h), (n,) -> weight (h, C)."""
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
    """Trains an adapter within ``options.dp_epsilon`` and writes it to ``folder``.

    Args and errors are those of `sottovoce.cloud.training.trainer.train`; examples without a label
    are the public texts. What holds of the adapter is in ``adapter.json``, as ``origin.private``.

    Raises:
        NotReady: too few texts were answered for a student to learn from.
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
    """Places of public texts that are answered, and of their labels."""
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
    """The answers in ``file``; None if there are none for this very run."""
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
