"""A cloud that learns to write and answers prompts: the product's trainer and its engine.

A decoder takes minutes to train and a minute to write. So its answers are kept, under a name that
hashes all inputs. A killed run resumes from the trainer's own checkpoint.
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
from sottovoce.cloud.models.backbone import fast_bfloat16, hash_files
from sottovoce.cloud.models.chat import Turn
from sottovoce.cloud.serving.generator import Asked, Generator, Sampling
from sottovoce.cloud.serving.model_thread import DeviceThread, numbers
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.generation_trainer import RECIPE, train_generation
from sottovoce.cloud.training.run import Watch

__all__ = ["MOST", "Cloud", "Written"]

MOST: Final = 128
"""Maximum number of tokens of an answer."""
_AT_ONCE: Final = 32
"""Number of answers written together."""
_REVISION: Final = 1
"""Goes up when a change here makes earlier answers wrong."""


@dataclass(frozen=True)
class Written:
    """A decoder's answers after training.

    Attributes:
        answers: one for each prompt, as the cloud wrote it.
        right: share of held-out output tokens that were the likeliest token.
        seconds: wall-clock seconds on this machine, since the last start.
    """

    answers: tuple[str, ...]
    right: float
    seconds: float


@dataclass(frozen=True)
class Cloud:
    """A decoder's folder, and the folder with its kept answers."""

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
        """Train the decoder on the examples and return its answers to the prompts.

        Args:
            examples, prompts: released texts.
            options: options of the training.
            make: whether to train and ask when no kept answers exist; otherwise None is returned.
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
                # One tenant per prompt, because a tenant's simultaneous answers are limited.
                pieces = generator.submit(asked, files, tenant=str(place))
                return "".join(piece.text for piece in pieces)

            yield from readers.map(answer, range(len(prompts)))
