"""What is minimised is the outputs' cross-entropy and the plain tokens', of each example alone."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import decoder
from sottovoce.cloud.models.decoder import TextGenerator
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.training.generation_trainer import (
    GenerationDataset,
    GenerationObjective,
    WrittenBatch,
)
from tests.support import decoders
from tests.support.written import written

Made = tuple[TextGenerator, GenerationDataset]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A model with a reconstruction head, and 12 examples with three plain tokens each."""
    opened = decoder.load(str(decoders.save(tmp_path / "tiny")))
    options = TrainingOptions(reconstruction=True, plain_tokens=3, task="generation")
    data = GenerationDataset.of(written(12, plain=3), options, opened)
    torch.manual_seed(0)
    return TextGenerator(opened, Lora(), vocabulary=len(data.vocabulary)).eval(), data


def test_it_is_the_loss_that_the_models_makers_compute(made: Made, tmp_path: Path) -> None:
    model, data = made
    whole = decoder.load(str(decoders.save(tmp_path / "again"))).model
    for row in range(3):
        batch = data.batch([row])
        losses = GenerationObjective(model)(batch)
        # They shift labels themselves: each stands at its own token.
        labels = F.pad(batch.targets, (1, 0), value=-100)
        ids = torch.cat([batch.ids, batch.targets[:, -1:]], 1)
        wanted = whole(input_ids=ids, labels=labels).loss
        assert losses.reconstruction is None
        torch.testing.assert_close(losses.total[0], wanted)


def test_inputs_are_read_and_never_learnt(made: Made) -> None:
    model, data = made
    batch = data.batch(range(4))
    logits = model._decoder.logits(model.states(batch.ids, batch.attention))  # (B, n, V)
    own = F.cross_entropy(logits.mT, batch.targets, reduction="none", ignore_index=-100)
    wanted = own.sum(1) / (batch.targets >= 0).sum(1)
    torch.testing.assert_close(GenerationObjective(model)(batch).task, wanted)


def test_logits_made_piece_by_piece_give_the_same_gradients(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = made
    batch = data.batch(range(6), plain=True)
    found = []
    for rows in (3, 10_000):
        monkeypatch.setattr(decoder, "_ROWS", rows)
        losses = GenerationObjective(model, weight=0.3)(batch)
        found.append(torch.autograd.grad(losses.total.mean(), list(model.trained().values())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-4)


def test_plain_tokens_are_named_from_the_states_at_their_ends(made: Made) -> None:
    model, data = made
    batch = data.batch(range(6), plain=True)
    losses = GenerationObjective(model, weight=0.3)(batch)
    states, plain = model.states(batch.ids, batch.attention), batch.plain >= 0
    assert model.reconstruction is not None
    wanted = F.cross_entropy(model.reconstruction(states[plain]), batch.plain[plain])
    assert losses.reconstruction is not None
    torch.testing.assert_close(losses.reconstruction.mean(), wanted)
    torch.testing.assert_close(losses.total, losses.task + 0.3 * losses.reconstruction)


def test_no_examples_loss_depends_on_another(made: Made) -> None:
    model, data = made
    batch = data.batch([0, 1, 2], plain=True)
    together = GenerationObjective(model, weight=0.3)(batch)
    for row in range(3):
        one = WrittenBatch(*(getattr(batch, f.name)[row : row + 1] for f in fields(batch)))
        alone = GenerationObjective(model, weight=0.3)(one)
        torch.testing.assert_close(together.total[row], alone.total[0], atol=1e-5, rtol=1e-5)
