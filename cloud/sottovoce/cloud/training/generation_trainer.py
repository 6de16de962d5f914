"""Trains one adapter to write, readable from top to bottom: data, model, run, result.

As `sottovoce.cloud.training.trainer` trains one to classify, with the same methods, schedule,
checkpoints and reconstruction; there is no head for the task, so nothing is fitted first. The
weights kept are those that hit most of the held-out outputs' tokens, then those of least loss.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch

from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import adapters
from sottovoce.cloud.models.adapters import fingerprint
from sottovoce.cloud.models.decoder import Decoder
from sottovoce.cloud.models.generator import TextGenerator
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.models.precision import fast_bfloat16, to_bfloat16
from sottovoce.cloud.training.checkpoint import Checkpoint
from sottovoce.cloud.training.generation_dataset import GenerationDataset, WrittenBatch
from sottovoce.cloud.training.generation_objective import GenerationObjective
from sottovoce.cloud.training.run import UNWATCHED, Result, Run, Watch
from sottovoce.cloud.training.trainer import Hyperparameters

__all__ = ["RECIPE", "train_generation"]

RECIPE: Final = replace(Hyperparameters(), epochs=3, batch_size=8)

_ROWS: Final = 16
"""Examples in a pass without gradients."""


def train_generation(
    examples: Sequence[Example],
    options: TrainingOptions,
    decoder: Decoder,
    folder: Path,
    *,
    resume: Path | None = None,
    watch: Watch = UNWATCHED,
    origin: Mapping[str, Any] | None = None,
    recipe: Hyperparameters = RECIPE,
) -> Result:
    """Trains an adapter that writes the examples' outputs for their texts, into ``folder``.

    Args:
        examples: at least 8, with outputs.
        options: the tenant's choices; zeros take ``recipe``'s.
        decoder: freshly loaded; the method is built into it, so it is spent.
        folder, resume, watch, origin: see `trainer.train`.
        recipe: the trainer's own constants.

    Raises:
        NotReady: too few examples. InvalidInput: the decoder takes no single turn.
        Stopped: ``watch`` said so.
        SottovoceError: the loss is no longer a number. Unavailable: the disk is full.
    """
    started = time.monotonic()
    data = GenerationDataset.of(examples, options, decoder)
    plan = recipe.plan(options, data.train, [len(row.ids) for row in data.alone])
    with torch.random.fork_rng():
        torch.manual_seed(options.seed)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        model = TextGenerator(
            decoder,
            from_options(options),
            vocabulary=len(data.vocabulary),
            width=options.reconstruction_width or recipe.reconstruction_width,
        )
        model.to(device).eval()
        if device.type == "cpu" and recipe.bfloat16 and fast_bfloat16():
            to_bfloat16(model)
        optimizer = torch.optim.AdamW(model.trained().values(), weight_decay=recipe.weight_decay)
        rate = options.learning_rate or model.method.learning_rate
        weight = options.reconstruction_weight or recipe.reconstruction_weight
        every = recipe.every(data)
        identity = fingerprint((), options, recipe, rate, decoder.backbone.sha256, len(examples))
        run = Run(identity, plan, rate, recipe.clip, resume, recipe.checkpoint_seconds)
        objective = GenerationObjective(model, weight)

        def scored() -> tuple[float, float]:
            return score(objective, data, watch.go_on)

        point = run.checkpoint()
        if point is None:
            point = Checkpoint.first(model.trained(), *scored())
        else:
            point.into(model, optimizer)

        def batch(at: int) -> WrittenBatch:
            with_plain = options.reconstruction and at % every == 0
            return data.batch(plan.rows(at), plain=with_plain).to(device)

        run.follow(objective, model, optimizer, point, batch, scored, watch)
    adapters.save(folder, model, (), decoder.backbone, dict(origin or {}))
    taken = time.monotonic() - started
    return Result(folder, (), point.accuracy, len(data.held), plan.epochs, taken)


@torch.no_grad()
def score(
    objective: GenerationObjective,
    data: GenerationDataset,
    go_on: Callable[[], None] = lambda: None,
) -> tuple[float, float]:
    """Share of the held-out outputs' tokens that were the likeliest, and their loss; means over
    examples. ``go_on`` is called before every batch and may raise."""
    device = next(objective.model.parameters()).device
    hits = loss = 0.0
    by_length = sorted(data.held, key=lambda at: len(data.alone[at].ids))
    for start in range(0, len(by_length), _ROWS):
        go_on()
        rows = by_length[start : start + _ROWS]
        missed, hit, _ = objective.missed(data.batch(rows).to(device))
        loss, hits = loss + missed.sum().item(), hits + hit.sum().item()
    return hits / max(1, len(data.held)), loss / max(1, len(data.held))
