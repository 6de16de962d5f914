"""The cells of `bench.utility`, worked off by processes that share nothing but a folder.

Why it is here: dozens of runs on two cores must survive a kill, use both cores and make nothing
twice. A cell's result is a file named by all that it depends on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from bench import cache
from bench.utility.runs import answer
from bench.utility.tasks import REPLACED, Device, Task, load
from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.training.trainer import Hyperparameters
from sottovoce.core.bundle.encoder import Encoder
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.spherical import PCT2T2, T2T
from sottovoce.core.privacy.policies import Setting
from sottovoce.models import encoder as device_encoder

__all__ = ["Budget", "Cell", "Grid", "Place", "Source", "grid", "grid_at_home"]
__all__ += ["preparing", "working"]

_BATCH: Final = 32
_REVISION: Final = 4
"""Goes up when a change here makes earlier results wrong."""


@dataclass(frozen=True, order=True)
class Source:
    """Released text of a task; ``replaced`` 0 is clear text."""

    task: str
    mechanism: str = ""
    replaced: float = 0.0

    def __str__(self) -> str:
        return f"{self.mechanism} {self.replaced:g}" if self.replaced else "clear"


@dataclass(frozen=True, order=True)
class Cell:
    """One run."""

    source: Source
    method: str
    seed: int

    def __str__(self) -> str:
        return f"{self.source.task} {self.method} {self.source}"


@dataclass(frozen=True)
class Budget:
    """Sizes of the training sets.

    Attributes:
        train: phrases of SST-2 to train on; 0 for all.
        brief: the same for the other tasks.
        epochs: passes over the phrases of SST-2.
        brief_epochs: the same for the other tasks; None for ``epochs``.
    """

    train: int
    brief: int
    epochs: int
    brief_epochs: int | None = None


@dataclass(frozen=True)
class Place:
    """Settings of a worker: folders, sizes, and whether devices answer too."""

    bundle: Path
    data: Path
    cache: Path
    budget: Budget
    at_home: bool = False

    def options(self, cell: Cell) -> TrainingOptions:
        """Return the job options of a cell."""
        budget = self.budget
        often = budget.epochs if cell.source.task == "sst2" else budget.brief_epochs
        return TrainingOptions(
            cell.method, epochs=often or budget.epochs, batch_size=_BATCH, seed=cell.seed
        )


def grid(
    tasks: Sequence[str], seeds: Sequence[int], methods: Sequence[str] = ("lora", "prefix")
) -> list[Cell]:
    """SST-2 in every way; the other tasks under PCT2T with one method and the first seed alone, so
    that quick mode is quick."""
    cells: list[Cell] = []
    for seed in seeds:
        for task in tasks if seed == seeds[0] else [task for task in tasks if task == "sst2"]:
            main = task == "sst2"
            mechanisms = (PCT2T2.name, T2T.name) if main else (PCT2T2.name,)
            sources = [Source(task), *(Source(task, m, r) for r in REPLACED for m in mechanisms)]
            tried = methods if main else methods[:1]
            cells += [Cell(source, method, seed) for source in sources for method in tried]
    return cells


def grid_at_home(tasks: Sequence[str], seeds: Sequence[int], methods: Sequence[str]) -> list[Cell]:
    """Return every task under PCT2T with one method and every seed.

    These cells compare the same adapter in the cloud and on the device.
    """
    return [
        Cell(source, methods[0], seed)
        for task in tasks
        for seed in seeds
        for source in (Source(task), *(Source(task, PCT2T2.name, share) for share in REPLACED))
    ]


class Grid:
    """Cells and their results."""

    def __init__(self, place: Place, cells: Sequence[Cell]) -> None:
        self._files = {cell: _file(place, cell) for cell in cells}

    def sources(self) -> list[Source]:
        """Return the noisy sources of the missing cells."""
        return [*dict.fromkeys(cell.source for cell in self.missing() if cell.source.replaced)]

    def missing(self) -> list[Cell]:
        """Return the cells without a result."""
        return [cell for cell, file in self._files.items() if not file.exists()]

    @property
    def cells(self) -> list[tuple[Cell, dict[str, Any]]]:
        """Return all results."""
        return [(cell, json.loads(file.read_text())) for cell, file in self._files.items()]


class _Worker:
    """The bundle and tasks that a process opens once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.device = Device(Bundle.open(place.bundle), place.cache)

    @lru_cache(maxsize=1)  # noqa: B019 - a process has one worker
    def task(self, name: str) -> Task:
        budget = self.place.budget
        return load(name, self.place.data, budget.train if name == "sst2" else budget.brief)

    @cached_property
    def encoder(self) -> Encoder | None:
        """The encoder that a device of this bundle runs."""
        if not self.place.at_home:
            return None
        backbone = backbones.load()
        folder = self.place.cache / f"encoder-{backbone.sha256[:16]}"
        if not folder.exists():
            try:
                with cache.aside(folder) as path:
                    device_encoder.write(backbone, path)
            except OSError:  # another process was first
                if not folder.is_dir():
                    raise
        return Encoder.open(folder, self.device.bundle.tokenizer)

    def setting(self, source: Source) -> Setting | None:
        if not source.replaced:
            return None
        return self.device.setting(self.task(source.task), source.replaced, source.mechanism)

    def prepare(self, source: Source) -> None:
        self.setting(source)

    def run(self, cell: Cell) -> None:
        task, setting = self.task(cell.source.task), self.setting(cell.source)
        began = time.monotonic()
        found = answer(task, setting, self.device, self.place.options(cell), self.encoder)
        home = {"at_home": accuracy(found.at_home, task.dev.labels)} if found.at_home else {}
        result = {
            "accuracy": accuracy(found.labels, task.dev.labels),
            **home,
            "matthews": matthews(found.labels, task.dev.labels),
            "majority": task.majority,
            "level": setting.level if setting else "clear",
            "eta": self.device.eta(setting) if setting else None,
            "train": found.train,
            "dev": len(task.dev.labels),
            **found.shares,
            "seconds": time.monotonic() - began,
        }
        cache.keep(_file(self.place, cell), result)


def accuracy(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the share of correct answers."""
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)


def matthews(found: Sequence[str], wanted: Sequence[str]) -> float:
    """Correlation of answers with labels, CoLA's own measure: 0 for always the same answer."""
    names = sorted({*found, *wanted})
    table = np.zeros((len(names), len(names)))
    np.add.at(table, ([names.index(b) for b in wanted], [names.index(a) for a in found]), 1)
    n, right = table.sum(), table.trace()
    true, guessed = table.sum(axis=1), table.sum(axis=0)
    spread = (n * n - guessed @ guessed) * (n * n - true @ true)
    return float((right * n - guessed @ true) / spread**0.5) if spread > 0 else 0.0


def _file(place: Place, cell: Cell) -> Path:
    facts = (
        _REVISION,
        cell,
        place.budget,
        _bundle_id(place.bundle),
        Hyperparameters(),
        place.options(cell),
        [version(name) for name in ("torch", "transformers", "peft")],
        torch.cuda.is_available(),
        *(["at home"] if place.at_home else []),
    )
    return place.cache / "runs" / f"{cache.name_of(*facts)}.json"


@lru_cache(maxsize=4)
def _bundle_id(folder: Path) -> str:
    return Bundle.open(folder).id


def preparing(place: Place) -> Callable[[Source], None]:
    """Find a source's level; its releases stay in the cache."""
    return _Worker(place).prepare


def working(place: Place) -> Callable[[Cell], None]:
    """Run a cell, and leave its result in the cache."""
    return _Worker(place).run
