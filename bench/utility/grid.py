"""The cells of `bench.utility`, worked off by processes that share nothing but a folder.

Why it is here: over a hundred runs on two cores must survive a kill, use both cores and make
nothing twice. A cell's result is a file named by all that it depends on; a unit is the cells that
learn from the same released text.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import torch

from bench.utility.runs import METHODS, Backbone, Budget, TaskData, learn
from bench.utility.tasks import REPLACED, Device, Task, load
from sottovoce.cloud.job import Release
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models import noise_aware
from sottovoce.cloud.models.noise_aware import NoiseTable
from sottovoce.cloud.training.trainer import Recipe
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.mechanisms.pct2t import PCT2T
from sottovoce.core.privacy.mechanisms.t2t import T2T
from sottovoce.core.privacy.setting import Setting

__all__ = ["VARIANTS", "Cell", "Grid", "Place", "Source", "grid", "prepare", "start", "work"]

VARIANTS: Final = ("plain", "reconstruction", "noise-aware", "both")
_REVISION: Final = 2
"""Goes up when a change here makes earlier results wrong."""


@dataclass(frozen=True, order=True)
class Source:
    """Released text of a task; ``replaced`` 0 is clear text."""

    task: str
    mechanism: str = ""
    policy: str = ""
    replaced: float = 0.0

    def __str__(self) -> str:
        return f"{self.mechanism} {self.policy} {self.replaced:g}" if self.replaced else "clear"


@dataclass(frozen=True, order=True)
class Cell:
    """One run."""

    source: Source
    method: str
    variant: str
    seed: int

    def __str__(self) -> str:
        return f"{self.source.task} {self.method} {self.source} {self.variant}"


@dataclass(frozen=True)
class Place:
    """What a worker needs to know: folders and budget; ``brief`` examples of tasks beside SST-2."""

    bundle: Path
    data: Path
    cache: Path
    budget: Budget
    brief: int


def grid(
    tasks: Sequence[str],
    seeds: Sequence[int],
    variants: Sequence[str] = VARIANTS[:3],
    methods: Sequence[str] = ("lora", "prefix"),
    policies: Sequence[str] = ("default",),
) -> list[Cell]:
    """SST-2 in every way; the other tasks, and PCT2T under more than the first policy, with one
    method and the first seed alone, so that quick mode is quick."""
    cells = []
    for seed in seeds:
        first = seed == seeds[0]
        for task in tasks if first else [task for task in tasks if task == "sst2"]:
            main = task == "sst2"
            tried_on = methods if main else methods[:1]
            cells += [Cell(Source(task), method, "plain", seed) for method in tried_on]
            for replaced in REPLACED:
                for mechanism in (PCT2T.name, T2T.name) if main else (PCT2T.name,):
                    policy = policies[0] if mechanism == PCT2T.name else "default"
                    source = Source(task, mechanism, policy, replaced)
                    tried = variants if main else VARIANTS[:1]
                    cells += [Cell(source, m, v, seed) for v in tried for m in tried_on]
                if main and first:
                    more = [Source(task, PCT2T.name, each, replaced) for each in policies[1:]]
                    cells += [Cell(source, methods[0], "plain", seed) for source in more]
    return cells


class Grid:
    """Cells and what came of them."""

    def __init__(self, place: Place, cells: Sequence[Cell]) -> None:
        self._place = place
        self._files = {cell: _file(place, cell) for cell in cells}

    @cached_property
    def backbone(self) -> dict[str, str]:
        """What was adapted."""
        about = Bundle.open(self._place.bundle).manifest.backbone
        return {"name": about.name, "sha256": about.sha256}

    @cached_property
    def bundle(self) -> str:
        """Id of the bundle that released."""
        return Bundle.open(self._place.bundle).id

    def settings(self) -> list[tuple[Source, bool]]:
        """Sources with noise whose cells are missing, and whether they need a noise table."""
        wanted: dict[Source, bool] = {}
        for cell, file in self._files.items():
            if cell.source.replaced and not file.exists():
                aware = wanted.get(cell.source, False)
                wanted[cell.source] = aware or cell.variant in ("noise-aware", "both")
        # T2T's tables take longest.
        return sorted(wanted.items(), key=lambda each: (not each[1], each[0].mechanism != T2T.name))

    def units(self) -> list[list[Cell]]:
        """Missing cells, those of the same released text together; the largest units first, so
        that no process waits long for the last."""
        found: dict[tuple[Source, int], list[Cell]] = {}
        for cell, file in self._files.items():
            if not file.exists():
                noise = cell.seed if cell.source.replaced else 0
                found.setdefault((cell.source, noise), []).append(cell)
        return sorted(found.values(), key=len, reverse=True)

    @property
    def cells(self) -> list[tuple[Cell, dict[str, Any]]]:
        """All results."""
        return [(cell, json.loads(file.read_text())) for cell, file in self._files.items()]


class _Worker:
    """What a process opens once."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.device = Device(Bundle.open(place.bundle), place.cache)
        self.backbone = Backbone(backbones.load(), place.budget.blocks)

    @lru_cache(maxsize=1)  # noqa: B019 - a process has one worker
    def task(self, name: str) -> Task:
        budget = self.place.budget
        return load(name, self.place.data, budget.train if name == "sst2" else self.place.brief)

    def setting(self, source: Source) -> Setting | None:
        if not source.replaced:
            return None
        task = self.task(source.task)
        return self.device.setting(task, source.replaced, source.mechanism, source.policy)

    def table(self, setting: Setting) -> NoiseTable:
        bundle, eta = self.device.bundle, self.device.eta(setting)
        release = Release(setting.mechanism, eta, setting.level, bundle.id, setting.policy)
        return noise_aware.table(bundle, release, backbones.load(), self.place.cache / "noise")

    def run(self, cells: Sequence[Cell]) -> None:
        source, seed = cells[0].source, cells[0].seed
        setting = self.setting(source)
        for aware in (False, True):
            chosen = [c for c in cells if (c.variant in ("noise-aware", "both")) == aware]
            if not chosen:
                continue
            table = self.table(setting) if aware and setting else None
            material = TaskData(
                self.task(source.task),
                setting,
                self.device,
                self.backbone,
                self.place.budget,
                seed,
                table,
            )
            for cell in chosen:
                self._one(cell, material, setting)

    def _one(self, cell: Cell, material: TaskData, setting: Setting | None) -> None:
        _ = material.head, material.dev  # shared by the cells: no part of this one's time
        began = time.monotonic()
        answers = learn(
            material,
            self.backbone,
            METHODS[cell.method],
            self.place.budget,
            cell.seed,
            reconstruction=cell.variant in ("reconstruction", "both"),
        )
        result = {
            "accuracy": float((answers == material.wanted).float().mean()),
            "matthews": matthews(answers, material.wanted),
            "majority": self.task(cell.source.task).majority,
            "level": setting.level if setting else "clear",
            "eta": self.device.eta(setting) if setting else None,
            "train": len(material.targets),
            "dev": len(material.wanted),
            **material.shares,
            "seconds": time.monotonic() - began,
        }
        file = _file(self.place, cell)
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        temporary.write_text(json.dumps(result))
        temporary.replace(file)


def matthews(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """Correlation of answers with labels, CoLA's own measure: 0 for always the same answer."""
    classes = int(max(found.max(), wanted.max())) + 1
    table = torch.zeros(classes, classes, dtype=torch.float64)
    table.index_put_((wanted, found), torch.ones(len(found), dtype=torch.float64), accumulate=True)
    n, right = table.sum(), table.trace()
    true, guessed = table.sum(1), table.sum(0)
    spread = (n * n - guessed @ guessed) * (n * n - true @ true)
    return float((right * n - guessed @ true) / spread.sqrt()) if spread > 0 else 0.0


def _file(place: Place, cell: Cell) -> Path:
    facts = (
        _REVISION,
        asdict(cell),
        asdict(place.budget),
        place.brief,
        _bundle_id(place.bundle),
        repr(Recipe()),
        repr(METHODS[cell.method]),
        noise_aware.SHARE,
        [version(name) for name in ("torch", "transformers", "peft")],
        torch.cuda.is_available(),
    )
    name = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]
    return place.cache / "runs" / f"{name}.json"


@lru_cache(maxsize=4)
def _bundle_id(folder: Path) -> str:
    return Bundle.open(folder).id


_worker: _Worker | None = None


def start(place: Place) -> None:
    """Opens a worker."""
    global _worker
    _worker = _Worker(place)


def prepare(wanted: tuple[Source, bool]) -> None:
    """Finds a source's level and makes its noise table, into the cache."""
    assert _worker is not None
    source, aware = wanted
    setting = _worker.setting(source)
    if aware and setting:
        _worker.table(setting)


def work(cells: list[Cell]) -> None:
    """Runs the cells of a unit, in order; each leaves its result in the cache."""
    assert _worker is not None
    _worker.run(cells)
