"""A cloud that learns to write and is then asked: the product's trainer, and its engine.

Why it is here: a decoder takes minutes to learn and a minute to write, so what it wrote is kept,
under a name that all it was told goes into. A run that is killed goes on from the trainer's own
checkpoint.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import torch

from bench import cache, console
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import decoder as decoders
from sottovoce.cloud.models.backbone import hash_files
from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.models.precision import fast_bfloat16
from sottovoce.cloud.serving.generation import Asked, Sampling
from sottovoce.cloud.serving.generator import Generator
from sottovoce.cloud.serving.model_thread import DeviceThread, numbers
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.generation_trainer import RECIPE, train_generation
from sottovoce.cloud.training.run import Watch

__all__ = ["MOST", "Cloud", "Written"]

MOST: Final = 128
"""Tokens of an answer."""
_AT_ONCE: Final = 32
"""Answers that are written together."""
_REVISION: Final = 1
"""Goes up when a change here makes earlier answers wrong."""


@dataclass(frozen=True)
class Written:
    """What came of it.

    Attributes:
        answers: one for each prompt, as the cloud wrote it.
        right: share of held-out outputs' tokens that were the likeliest.
        seconds: of this machine, the last time it began.
    """

    answers: tuple[str, ...]
    right: float
    seconds: float


@dataclass(frozen=True)
class Cloud:
    """A decoder in a folder, and where what it wrote is kept."""

    decoder: Path
    folder: Path

    @cached_property
    def _known_by(self) -> str:
        files = sorted(self.decoder.glob("*.safetensors"))
        return hash_files([*files, self.decoder / "tokenizer.json"])

    def written(
        self,
        examples: Sequence[Example],
        prompts: Sequence[str],
        options: TrainingOptions,
        *,
        make: bool = True,
    ) -> Written | None:
        """What the decoder answers to the prompts when it has learnt from the examples.

        Args:
            examples, prompts: as they left the device.
            options: of the training.
            make: train and ask, if that was not done before; else None.
        """
        name = cache.name_of(
            _REVISION, MOST, self._known_by, RECIPE, options, [*examples], [*prompts]
        )
        kept = self.folder / f"{name}.json"
        if not kept.is_file():
            if not make:
                return None
            cache.keep(kept, asdict(self._make(self.folder / name, examples, prompts, options)))
            shutil.rmtree(self.folder / name)
        found = json.loads(kept.read_text(encoding="utf-8"))
        return Written(tuple(found["answers"]), found["right"], found["seconds"])

    def _make(
        self,
        folder: Path,
        examples: Sequence[Example],
        prompts: Sequence[str],
        options: TrainingOptions,
    ) -> Written:
        began = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        with console.progress() as bar:
            task = bar.add_task("training")
            told = Watch(lambda at: bar.update(task, completed=at.step, total=at.steps))
            learnt = train_generation(
                examples,
                options,
                decoders.load(str(self.decoder)),
                folder / "adapter",
                resume=folder / "checkpoint",
                watch=told,
            )
            task = bar.add_task("writing", total=len(prompts))
            answers = []
            for answer in self._answers(AdapterFiles.of(learnt.folder), prompts):
                answers.append(answer)
                bar.advance(task)
        return Written(tuple(answers), learnt.held_out_accuracy, time.monotonic() - began)

    def _answers(self, files: AdapterFiles, prompts: Sequence[str]) -> Iterator[str]:
        dtype = torch.bfloat16 if fast_bfloat16() else numbers()
        opened = decoders.load(str(self.decoder), dtype=dtype)
        with (
            closing(DeviceThread(dtype=dtype)) as thread,
            ThreadPoolExecutor(_AT_ONCE) as readers,
        ):
            generator = Generator(thread, opened)

            def answer(place: int) -> str:
                asked = Asked((Turn("user", prompts[place]),), Sampling(MOST))
                # Each as somebody else's: a tenant may not have so many written at once.
                pieces = generator.submit(asked, files, tenant=str(place))
                return "".join(piece.text for piece in pieces)

            yield from readers.map(answer, range(len(prompts)))
