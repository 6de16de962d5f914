"""A checkpoint is whole or absent, and never another run's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.training.run import Checkpoint
from tests.support.backbones import tiny_bert

Run = tuple[TextClassifier, torch.optim.AdamW]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A model after two optimiser steps."""
    model = TextClassifier(backbone.load(str(tiny_bert(tmp_path / "bert"))), Lora(), 2)
    optimizer = torch.optim.AdamW(model.trained().values(), lr=0.1)
    for _ in range(2):
        sum(p.square().sum() + p.sum() for p in model.trained().values()).backward()  # type: ignore[union-attr]
        optimizer.step()
    return model, optimizer


def test_weights_moments_and_best_come_back(run: Run, tmp_path: Path) -> None:
    model, optimizer = run
    point = Checkpoint.first(model.trained(), 0.5, 1.0)
    point.step = 17
    point.save(tmp_path / "c" / "last.safetensors", "me", model, optimizer)

    other = TextClassifier(backbone.load(str(tmp_path / "bert")), Lora(), 2)
    fresh = torch.optim.AdamW(other.trained().values(), lr=0.1)
    found = Checkpoint.load(tmp_path / "c" / "last.safetensors", "me")
    assert found is not None
    found.into(other, fresh)

    assert (found.step, found.accuracy, found.loss) == (17, 0.5, 1.0)
    for name, parameter in model.trained().items():
        twin = other.trained()[name]
        assert torch.equal(parameter, twin)
        assert torch.equal(found.best[name], parameter)
        for key, value in optimizer.state[parameter].items():
            assert torch.equal(fresh.state[twin][key], value)
    assert [f.name for f in (tmp_path / "c").iterdir()] == ["last.safetensors"]


def test_the_best_is_kept_by_accuracy_then_loss() -> None:
    point = Checkpoint.first({}, 0.5, 1.0)
    tried = [(0.4, 0.1, False), (0.5, 1.1, False), (0.5, 0.9, True), (0.6, 5, True)]
    for accuracy, loss, taken in tried:
        point.keep_best({"x": torch.tensor(accuracy + loss)}, accuracy, loss)
        assert (point.accuracy == accuracy and point.loss == loss) is taken
    assert point.best["x"].item() == pytest.approx(5.6)


def test_what_was_kept_does_not_change_with_the_model(run: Run) -> None:
    model, _ = run
    point = Checkpoint.first(model.trained(), 0.5, 1.0)
    before = {n: t.clone() for n, t in point.best.items()}
    with torch.no_grad():
        for p in model.trained().values():
            p.zero_()
    assert all(torch.equal(point.best[n], before[n]) for n in before)


def test_nothing_usable_means_a_fresh_start(run: Run, tmp_path: Path) -> None:
    model, optimizer = run
    file = tmp_path / "last.safetensors"
    assert Checkpoint.load(file, "me") is None
    Checkpoint.first(model.trained(), 0.5, 1.0).save(file, "me", model, optimizer)
    assert Checkpoint.load(file, "someone else") is None
    file.write_bytes(file.read_bytes()[:-100])
    assert Checkpoint.load(file, "me") is None
