"""What is minimised is the two published losses, of each example by itself."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.training.dataset import Dataset
from sottovoce.cloud.training.fit import Labelled, Objective
from tests.support.examples import examples

Made = tuple[TextClassifier, Dataset]


@pytest.fixture
def made(bert: str) -> Made:
    """A model with a reconstruction head, and 16 examples with three plain tokens each."""
    loaded = backbone.load(bert)
    options = TrainingOptions(reconstruction=True, plain_tokens=3)
    data = Dataset.of(examples(16, plain=3), options, loaded.tokenizer)
    torch.manual_seed(0)
    return TextClassifier(loaded, Lora(), 3, vocabulary=len(data.vocabulary)).eval(), data


def test_the_mean_is_the_two_published_losses(made: Made) -> None:
    model, data = made
    batch = data.batch(range(16), plain=True)
    losses = Objective(model, weight=0.3)(Labelled(batch, data.targets))
    logits, named = model(batch)
    task = F.cross_entropy(logits, data.targets)
    rec = F.cross_entropy(named, batch.plain[batch.plain >= 0])
    assert losses.reconstruction is not None
    torch.testing.assert_close(losses.task.mean(), task)
    torch.testing.assert_close(losses.reconstruction.mean(), rec)
    own = list(model.trained().values())
    expected = torch.autograd.grad(task + 0.3 * rec, own)
    for found, wanted in zip(torch.autograd.grad(losses.total.mean(), own), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-6, rtol=1e-4)
    alone = Objective(model, weight=0.3)(Labelled(data.batch(range(16)), data.targets))
    assert alone.reconstruction is None
    assert torch.equal(alone.total, alone.task)


def test_no_examples_loss_depends_on_another(made: Made) -> None:
    model, data = made
    # Of unequal numbers of plain tokens: each example's mean is over its own.
    batch = data.batch([0, 1, 2], plain=True)
    for place in (batch.plain[1] >= 0).nonzero()[1:]:
        batch.plain[1, place] = -100
    objective = Objective(model, weight=0.3)
    together = objective(Labelled(batch, data.targets[[0, 1, 2]]))
    for row in range(3):
        one = type(batch)(
            *(getattr(batch, name)[row : row + 1] for name in batch.__dataclass_fields__)
        )
        alone = objective(Labelled(one, data.targets[[row]]))
        torch.testing.assert_close(together.total[row], alone.total[0], atol=1e-5, rtol=1e-5)
