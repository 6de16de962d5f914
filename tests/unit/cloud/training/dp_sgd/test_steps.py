"""Each example has its own gradient, and a private step sums the clipped ones."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
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
    clipped_sum,
    noisy_mean,
    normal,
    sample,
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


LEVEL = 1e-6
floats = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(st.tuples(floats, floats, floats), min_size=1, max_size=4), st.floats(0.01, 10))
def test_one_example_never_moves_the_sum_by_more_than_the_clip(
    rows: list[tuple[float, float, float]], clip: float
) -> None:
    whole = torch.tensor(rows)
    gradients = {"a": whole[:, :2], "b": whole[:, 2:]}
    alone = {name: each[:1] for name, each in gradients.items()}
    moved = clipped_sum(alone, clip)
    length = math.hypot(*(float(part.double().norm()) for part in moved.values()))
    assert length <= clip


def test_what_is_short_enough_is_left_as_it_is() -> None:
    found = clipped_sum({"a": torch.tensor([[0.3, 0.0], [0.0, 0.4]])}, 0.5)
    assert torch.allclose(found["a"], torch.tensor([0.3, 0.4]), atol=1e-6)


def test_the_length_is_over_all_that_is_trained() -> None:
    found = clipped_sum({"a": torch.tensor([[3.0]]), "b": torch.tensor([[4.0]])}, 1.0)
    assert found["a"].item() == pytest.approx(0.6, rel=1e-5)
    assert found["b"].item() == pytest.approx(0.8, rel=1e-5)


def test_each_is_clipped_before_they_are_summed() -> None:
    found = clipped_sum({"a": torch.tensor([[100.0], [-1.0], [-1.0]])}, 1.0)
    assert found["a"].item() == pytest.approx(-1.0, rel=1e-5)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_an_example_without_a_number_counts_as_nothing(wrong: float) -> None:
    found = clipped_sum({"a": torch.tensor([[wrong, 1.0], [0.1, 0.0]])}, 1.0)
    assert torch.allclose(found["a"], torch.tensor([0.1, 0.0]), atol=1e-6)


def test_a_step_is_the_sum_and_noise_over_the_number_expected() -> None:
    stage = Stage(steps=1, share=0.1, noise=2.0, clip=0.5)
    sums = {"a": torch.full((50_000,), 3.0)}
    mean = noisy_mean(sums, stage, records=200)["a"].double()
    # 20 examples are expected, whatever the sample held.
    noise = (mean * 20 - 3.0) / (2.0 * 0.5)
    assert stats.kstest(noise.numpy(), "norm").pvalue > LEVEL


def test_noise_is_drawn_even_where_nobody_was_sampled() -> None:
    stage = Stage(steps=1, share=0.1, noise=1.0, clip=1.0)
    assert float(noisy_mean({"a": torch.zeros(8)}, stage, records=100)["a"].abs().min()) > 0


def test_noise_is_normal() -> None:
    drawn = normal((200_000,)).double().numpy()
    assert stats.kstest(drawn, "norm").pvalue > LEVEL


def test_noise_of_neighbours_is_independent() -> None:
    drawn = normal((2, 100_000)).double().numpy()
    for one, other in ((drawn[0], drawn[1]), (drawn[0][:-1], drawn[0][1:])):
        assert stats.pearsonr(one, other).pvalue > LEVEL
        assert stats.pearsonr(one**2, other**2).pvalue > LEVEL


def test_every_shape_is_filled() -> None:
    for shape in ((0,), (1,), (3, 5), (2, 3, 7), (1 << 18, 3)):
        drawn = normal(shape)
        assert drawn.shape == shape
        assert drawn.dtype == torch.float64
        assert len(drawn.unique()) >= 0.95 * drawn.numel()


def test_no_seed_brings_noise_or_a_sample_back() -> None:
    def draw() -> tuple[list[float], list[int]]:
        torch.manual_seed(7)
        np.random.seed(7)
        return normal((8,)).tolist(), sample(1_000, 0.5)

    assert draw() != draw()


def test_each_example_is_drawn_by_itself() -> None:
    sizes = [len(sample(400, 0.1)) for _ in range(2_000)]
    expected = stats.binom(400, 0.1)
    # A chi-square test over ranges that 25 of the 2,000 at least fall into.
    edges = expected.ppf(np.linspace(0, 1, 41)[1:-1])
    edges = np.unique(edges)
    cells = np.digitize(sizes, edges)
    shares = np.diff(np.concatenate([[0.0], expected.cdf(edges - 1), [1.0]]))
    counts = np.bincount(cells, minlength=len(shares))
    assert stats.chisquare(counts, shares * len(sizes)).pvalue > LEVEL


def test_a_sample_may_be_empty_or_everything() -> None:
    assert sample(10, 0.0) == []
    assert sample(10, 1.0) == list(range(10))
