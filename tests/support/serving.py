"""Adapters of every method with random parameters, saved as training saves them.

What an adapter should answer is computed by the model that training uses, one text at a time:
PEFT's own LoRA, no padding, no other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sottovoce.cloud.job import Example
from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.backbone import LabelWords
from sottovoce.cloud.models.batches import collate, encode
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor, _Request
from sottovoce.cloud.store.adapters import AdapterFiles, digest, install
from sottovoce.cloud.store.database import Database

LABELS = ("doctor", "letter", "market", "garden")  # words the tiny decoders know


@dataclass(frozen=True)
class Made:
    """An adapter on disk, and the model it was taken out of."""

    folder: Path
    loaded: backbone.LoadedBackbone
    model: TextClassifier
    cue: tuple[int, ...]

    @property
    def files(self) -> AdapterFiles:
        """The adapter as the registry names it."""
        return AdapterFiles.of(self.folder)

    @torch.no_grad()
    def logits(self, text: str) -> Tensor:
        """Float (C,), from this text alone."""
        rows = encode(self.loaded.tokenizer, [text], cue=self.cue)
        logits: Tensor = self.model(collate(rows, 0))[0][0]
        return logits


def make(
    bones: Path,
    folder: Path,
    method: Method,
    *,
    seed: int = 0,
    classes: int = 3,
    label_words: bool = False,
    bundle_id: str = "",
) -> Made:
    """Saves an adapter of ``method`` with random numbers in all it trains."""
    loaded = backbone.load(str(bones))
    origin: dict[str, Any] = {"bundle_id": bundle_id}
    labels = LABELS[:classes]
    words = LabelWords.of(loaded, labels) if label_words else None
    torch.manual_seed(seed)
    model = TextClassifier(
        loaded,
        method,
        classes,
        vocabulary=5,  # a reconstruction head, which must not come along
        words=words.weight(loaded) if words else None,
    ).eval()
    size = 0.02 if isinstance(method, Full) else 0.3
    with torch.no_grad():
        for parameter in model.trained().values():
            parameter += size * torch.randn_like(parameter)
    folder.parent.mkdir(parents=True, exist_ok=True)
    adapters.save(folder, model, labels, loaded, origin, words)
    return Made(folder, loaded, model, words.cue if words else ())


@contextmanager
def predicting(
    bones: Path | str,
    *,
    batch: int = 64,
    dtype: torch.dtype | None = None,
    metrics: Metrics | None = None,
    **options: Any,
) -> Iterator[Predictor]:
    """Run a predictor on its own thread."""
    loaded = backbone.load(str(bones))
    with closing(ModelThread(loaded, batch=batch, dtype=dtype, metrics=metrics)) as thread:
        yield Predictor(thread, **options)


def install_adapter(database: Database, tenant: str, name: str, folder: Path) -> None:
    """Gives a tenant the adapter in a folder of the state, as if it was trained here."""
    with database.write() as transaction:
        install(
            transaction,
            tenant,
            name,
            job=folder.parent.name,
            folder=folder.relative_to(database.state).as_posix(),
            sha256=digest(folder),
        )


def served(predictor: Predictor, asked: list[tuple[Path, str]]) -> list[Tensor]:
    """Logits of each, from one batch of the server."""
    held = [predictor._adapters.acquire(AdapterFiles.of(folder)) for folder, _ in asked]
    requests = [
        _Request(adapter, text) for (adapter, _), (_, text) in zip(held, asked, strict=True)
    ]
    rows: list[Tensor] = []
    answered = predictor._thread.submit(
        lambda batches: enumerate([dict(predictor._logits(batches[0]))]), requests
    ).result(60)
    for found in (answered[place] for place in range(len(asked))):
        assert isinstance(found, Tensor), found
        rows.append(found)
    for _, release in held:
        release()
    return rows


ADAPTERS: dict[str, Method] = {
    "lora": Lora(rank=4),
    "wide": Lora(rank=7, alpha=7, feed_forward=True),
    "prompt": Prompt(5),
    "longer": Prompt(9),
    "prefix": Prefix(4),
    "deeper": Prefix(6),
    "full": Full(),
    "other": Full(),
}


def all_methods(bones: Path, jobs: Path) -> list[Made]:
    """An adapter of every method, and of label words where the backbone is a decoder."""
    made = [
        make(bones, jobs / name / "adapter", method, seed=seed, classes=2 + seed % 3)
        for seed, (name, method) in enumerate(ADAPTERS.items())
    ]
    if "t5" not in bones.name and "bert" not in bones.name:
        made.append(make(bones, jobs / "words" / "adapter", Lora(), seed=9, label_words=True))
    return made


def accuracy(folder: Path, name: str, rows: list[Example]) -> float:
    """Share of `rows` that the adapter in `folder` labels as they are, over the backbone `name`."""
    with closing(ModelThread(backbone.load(name))) as thread:
        predictor = Predictor(thread)
        adapter = AdapterFiles.of(folder)
        answers = [predictor.submit(adapter, row.text) for row in rows]
        hits = [a.result()[0][0] == row.label for a, row in zip(answers, rows, strict=True)]
    return sum(hits) / len(hits)
