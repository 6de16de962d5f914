"""Time of a private training step, beside a plain step over the same examples.

A private step works through its sample in pieces, with a copy of the adapter for every row, and
draws noise once. So the cost of each example falls with the size of the sample.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import torch

from bench import console
from bench.console import Figures
from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.backbone import fast_bfloat16, to_bfloat16
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.training.dp_sgd import trainer
from sottovoce.cloud.training.dp_sgd.steps import BIAS, WEIGHT, Private, RowObjective, Trained
from sottovoce.cloud.training.run import Clipped, Labelled, Objective
from sottovoce.core.privacy.gaussian import Stage

__all__ = ["METHODS", "measure", "steps"]

METHODS: Final = ("lora", "prompt", "prefix")
_RATE: Final = 1e-3
_STAGE: Final = Stage(steps=1, share=0.1, noise=1.0, clip=0.5)

Step = Callable[[Sequence[Labelled]], object]


def steps(method: str, labels: int) -> dict[str, Step]:
    """Return a plain and a private step over pieces, built as the trainers build them."""
    options = TrainingOptions(method=method)
    plain = TextClassifier(backbones.load(), from_options(options), labels).eval()
    if fast_bfloat16():
        to_bfloat16(plain.encoder)
    follow = Clipped(torch.optim.AdamW(plain.trained().values(), lr=_RATE))
    objective = Objective(plain)

    loaded = backbones.load()
    model, begin = trainer.begin(loaded, from_options(options), torch.device("cpu"), True)
    width = loaded.hidden_size
    trained = Trained({**begin, WEIGHT: torch.zeros(labels, width), BIAS: torch.zeros(labels)})
    private = Private(trained, torch.optim.Adam(trained.values.values()), _STAGE, 1_000)
    own = RowObjective(model, trained)
    return {
        "plain": lambda pieces: [follow(objective, piece, _RATE) for piece in pieces],
        "private": lambda pieces: private(own, pieces, _RATE),
    }


def measure(data: Dataset, pieces: int, repeats: int) -> Figures:
    """Processor seconds by method and side over ``pieces`` times 32 examples, in turn: medians."""
    rows = list(range(32 * pieces))
    sample = trainer.pieces(data, rows, torch.device("cpu"))
    found: Figures = {}
    for method in METHODS:
        made = steps(method, len(data.labels))
        times: dict[str, list[float]] = {side: [] for side in made}
        for turn in console.track(range(repeats + 1), f"private steps, {method}"):
            for side, step in made.items():
                start = time.process_time()
                step(sample)
                if turn:  # the first one warms up
                    times[side].append(time.process_time() - start)
        ratios = [a / b for a, b in zip(times["private"], times["plain"], strict=True)]
        found[method] = {
            "examples_per_second": round(len(rows) / statistics.median(times["private"]), 1),
            "times_plain": round(statistics.median(ratios), 3),
        }
    return found
