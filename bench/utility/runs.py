"""One cell of `bench.utility`: a tenant's job, from released examples to answers.

Why it is here: an adapter is trained and asked by the product's own trainer and predictor, so what
is measured is what a tenant gets. Nothing is chosen by looking at the development part: weights are
those that do best on the part of the training phrases that the trainer holds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.utility.tasks import Device, Task, join
from sottovoce.cloud.job import Example, TrainingOptions
from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.adapters import to_local
from sottovoce.cloud.serving.model_thread import ModelThread
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.cloud.store.adapters import AdapterFiles
from sottovoce.cloud.training.trainer import train
from sottovoce.core.local.encoder import Encoder
from sottovoce.core.privacy.setting import Setting

__all__ = ["Answers", "answer", "learnt_and_asked"]

_AT_ONCE = 64
"""Questions in flight."""


@dataclass(frozen=True)
class Answers:
    """What came of one job: a label for each development example, how many trained it, what was
    released of the development part (nothing for clear text), and the labels that a device gave
    which had the adapter and the text as it stands, if it was asked."""

    labels: list[str]
    train: int
    shares: dict[str, float]
    at_home: list[str] | None = None


def answer(
    task: Task,
    setting: Setting | None,
    device: Device,
    options: TrainingOptions,
    encoder: Encoder | None = None,
) -> Answers:
    """Trains on one release of the task and asks about another.

    Args:
        task: what to learn.
        setting: how it is released, None for not at all.
        device: releases it.
        options: of the job; ``seed`` is that of the noise too.
        encoder: what a device runs the same adapter over, to be asked about the texts themselves.
    """
    learnt, asked, shares = task.train.texts, task.dev.texts, dict[str, float]()
    if setting is not None:
        learnt = device.release(learnt, setting, options.seed).texts
        found = device.release(asked, setting, options.seed)
        asked = found.texts
        shares = {name: x for name, x in vars(found).items() if name != "texts"}
    tokenizer = backbones.load().tokenizer
    texts, questions = (join(parts, tokenizer) for parts in (learnt, asked))
    with _trained(texts, task.train.labels, options, train) as folder:
        labels = [*_ask(folder, questions)]
        at_home = None
        if encoder is not None:
            at_home = [*_ask_at_home(folder, join(task.dev.texts, tokenizer), encoder)]
    return Answers(labels, len(texts), shares, at_home)


def learnt_and_asked(
    texts: Sequence[str],
    labels: Sequence[str],
    asked: Sequence[str],
    options: TrainingOptions,
    trained: Callable[..., object] = train,
) -> list[str]:
    """The label of each question, by an adapter that learnt from ``texts``.

    Args:
        texts, labels: to learn from.
        asked: questions, as released.
        options: of the job.
        trained: `train`, or what trains privately.
    """
    with _trained(texts, labels, options, trained) as folder:
        return [*_ask(folder, asked)]


@contextmanager
def _trained(
    texts: Sequence[str],
    labels: Sequence[str],
    options: TrainingOptions,
    trained: Callable[..., object],
) -> Iterator[Path]:
    examples = [Example(*each) for each in zip(texts, labels, strict=True)]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / "adapter"
        trained(examples, options, backbones.load(), folder)
        yield folder


def _ask_at_home(folder: Path, questions: Sequence[str], encoder: Encoder) -> Iterator[str]:
    """The same by a device, of one text after the other."""
    adapter = to_local(folder, backbones.load().model)
    adapter.check(encoder.shape)
    for question in questions:
        yield adapter.scores(encoder, question)[0][0]


def _ask(folder: Path, questions: Sequence[str]) -> Iterator[str]:
    """The label of each question, by the adapter in ``folder``, which `train` wrote."""
    with closing(ModelThread(backbones.load(), packed=False)) as thread:
        predictor, adapter = Predictor(thread), AdapterFiles.of(folder)
        for first in range(0, len(questions), _AT_ONCE):
            some = questions[first : first + _AT_ONCE]
            for waiting in [predictor.submit(adapter, question) for question in some]:
                yield waiting.result()[0][0]
