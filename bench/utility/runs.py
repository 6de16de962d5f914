"""One cell of `bench.utility`: a tenant's job, from released examples to answers.

The product's own trainer and predictor run the job, so the figures are a tenant's. The development
part chooses nothing: the trainer picks the weights on its own held-out part of the training
phrases.
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
from sottovoce.core.bundle.encoder import Encoder
from sottovoce.core.privacy.policies import Setting

__all__ = ["Answers", "answer", "learnt_and_asked"]

_AT_ONCE = 64
"""Number of questions in flight."""


@dataclass(frozen=True)
class Answers:
    """Results of one job.

    They are a label for each development example, the number of training examples, and the releases
    of the development part (empty for clear text). If a device was asked, they also hold its
    labels, from the same adapter and the original text.
    """

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
    """Train on one release of the task and answer another.

    Args:
        task: the task.
        setting: privacy setting of the release; None for clear text.
        device: the device that releases.
        options: options of the job; ``seed`` also seeds the noise.
        encoder: the device's encoder; if given, the device answers the original texts.
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
    """Return the device's labels of single texts."""
    adapter = to_local(folder, backbones.load().model)
    adapter.check(encoder.shape)
    for question in questions:
        yield adapter.scores(encoder, question)[0][0]


def _ask(folder: Path, questions: Sequence[str]) -> Iterator[str]:
    """Return the label of each question, by the adapter that `train` wrote into ``folder``."""
    with closing(ModelThread(backbones.load(), packed=False)) as thread:
        predictor, adapter = Predictor(thread), AdapterFiles.of(folder)
        for first in range(0, len(questions), _AT_ONCE):
            some = questions[first : first + _AT_ONCE]
            for waiting in [predictor.submit(adapter, question) for question in some]:
                yield waiting.result()[0][0]
