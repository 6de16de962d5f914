"""Each example has its own gradient, and a private step sums the clipped ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.training.dp_sgd import steps
from sottovoce.cloud.training.dp_sgd.steps import (
    BIAS,
    ROW,
    WEIGHT,
    Private,
    RowClassifier,
    RowObjective,
    Trained,
)
from sottovoce.cloud.training.run import Labelled
from sottovoce.core.privacy.gaussian import Stage
from tests.support.examples import examples

METHODS = ("lora", "prompt", "prefix", "head")
STAGE = Stage(steps=1, share=0.5, noise=0.0, clip=0.2)


def made(name: str, method: str) -> tuple[RowClassifier, Trained, Labelled]:
    """Return a model with random weights and nine examples."""
    torch.manual_seed(0)
    loaded = backbone.load(name)
    options = TrainingOptions(method=method)
    data = Dataset.of(examples(9), options, loaded.tokenizer)
    chosen = from_options(options)
    encoder = encoder_of(loaded.model).requires_grad_(False)
    adapted = chosen.build(encoder)
    tensors = {n: torch.randn_like(t) * 0.3 for n, t in adapted.tensors().items()}
    bare = adapted.encoder.unload() if method == "lora" else adapted.encoder
    row = chosen.row(bare.requires_grad_(False).eval(), tensors)
    values = {WEIGHT: torch.randn(3, bare.config.hidden_size), BIAS: torch.randn(3)}
    if tensors:
        values[ROW] = row.numbers
    rows = list(range(9))
    return RowClassifier(bare, row, 2.0), Trained(values), Labelled(data.batch(rows), data.targets)


def alone(model: RowClassifier, trained: Trained, examples: Labelled) -> dict[str, Tensor]:
    """The gradients of the examples of one pass, by name Float (B, ...)."""
    with trained.copied(len(examples.targets)) as copies:
        losses = RowObjective(model, trained)([examples]).task
        found = torch.autograd.grad(losses.sum(), list(copies.values()))
    return dict(zip(copies, found, strict=True))


def one(examples: Labelled, at: int) -> Labelled:
    """A single example, without the padding of its batch."""
    batch = examples.batch
    length = int(batch.attention[at].sum())
    fields = ("ids", "attention", "text", "plain")
    cut = {name: getattr(batch, name)[at : at + 1, :length] for name in fields}
    return Labelled(replace(batch, **cut), examples.targets[at : at + 1])


@pytest.mark.parametrize("method", METHODS)
def test_gradients_are_those_of_a_loop_over_single_examples(method: str, bert: str) -> None:
    model, trained, both = made(bert, method)
    together = alone(model, trained, both)
    for at in range(9):
        single = alone(model, trained, one(both, at))
        for name, gradient in single.items():
            largest = float(gradient.abs().max())
            assert largest > 0
            assert torch.allclose(together[name][at], gradient[0], atol=1e-5 * max(1.0, largest))


@pytest.mark.parametrize("method", METHODS)
def test_no_example_moves_another_ones_gradient(method: str, bert: str) -> None:
    model, trained, both = made(bert, method)
    ids = both.batch.ids.clone()
    ids[0, 1] = ids[0, 2]
    other = Labelled(replace(both.batch, ids=ids), both.targets)
    before, after = alone(model, trained, both), alone(model, trained, other)
    for name, gradient in before.items():
        assert torch.equal(gradient[1:], after[name][1:])
        assert not torch.equal(gradient[0], after[name][0])


@pytest.mark.parametrize("method", METHODS)
def test_a_step_without_noise_follows_the_clipped_sum_over_the_number_expected(
    method: str, bert: str
) -> None:
    model, trained, both = made(bert, method)
    expected = {name: torch.zeros_like(value) for name, value in trained.values.items()}
    for at in range(9):
        single = {name: g[0] for name, g in alone(model, trained, one(both, at)).items()}
        length = torch.stack([g.norm() for g in single.values()]).norm()
        assert length > STAGE.clip  # so that every one of them is cut
        for name, gradient in single.items():
            expected[name] += gradient * (STAGE.clip / length)
    before = {name: value.clone() for name, value in trained.values.items()}
    update = Private(trained, torch.optim.SGD(trained.values.values()), STAGE, records=40)
    # In two pieces: 20 examples were expected, 9 came.
    halves = [both_at(both, slice(0, 4)), both_at(both, slice(4, 9))]
    update(RowObjective(model, trained), halves, 0.5)
    for name, value in trained.values.items():
        moved = (before[name] - value) / 0.5
        assert torch.allclose(moved, expected[name] / 20, atol=1e-5)


def both_at(examples: Labelled, rows: slice) -> Labelled:
    batch = examples.batch
    fields = ("ids", "attention", "text", "plain")
    return Labelled(
        replace(batch, **{name: getattr(batch, name)[rows] for name in fields}),
        examples.targets[rows],
    )


def test_noise_is_drawn_once_a_step_and_for_no_example_too(
    bert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, trained, both = made(bert, "lora")
    drawn: list[int] = []
    usual = steps.noisy_mean

    def counted(sums: dict[str, Tensor], *rest: object) -> dict[str, Tensor]:
        drawn.append(len(sums))
        return usual(sums, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(steps, "noisy_mean", counted)
    noisy = replace(STAGE, noise=1.0)
    update = Private(trained, torch.optim.SGD(trained.values.values()), noisy, records=40)
    for batch in ([], [both], [both_at(both, slice(0, 2)), both_at(both, slice(2, 9))]):
        before = {name: value.clone() for name, value in trained.values.items()}
        update(RowObjective(model, trained), batch, 0.1)
        assert all(not torch.equal(before[n], v) for n, v in trained.values.items())
    assert drawn == [3, 3, 3]


def test_two_steps_from_the_same_place_differ(bert: str) -> None:
    """No seed repeats the noise."""
    ends = []
    for _ in range(2):
        model, trained, both = made(bert, "head")
        noisy = replace(STAGE, noise=1.0)
        update = Private(trained, torch.optim.SGD(trained.values.values()), noisy, records=40)
        torch.manual_seed(1)
        update(RowObjective(model, trained), [both], 0.1)
        ends.append(trained.values[WEIGHT])
    assert not torch.equal(*ends)


def test_outside_of_a_step_there_are_no_copies(bert: str) -> None:
    model, trained, both = made(bert, "head")
    with pytest.raises(RuntimeError, match="no copies"):
        RowObjective(model, trained)([both])
