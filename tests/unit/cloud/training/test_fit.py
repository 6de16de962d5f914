"""A step follows the gradient as far as it may, at its own rate, and can be made in another way."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.training.run import (
    Clipped,
    Labelled,
    Losses,
    Objective,
    Plan,
    batches,
    fit,
    schedule,
)
from sottovoce.core.errors import SottovoceError
from tests.support.examples import examples

Batch = tuple[Tensor, Tensor]


def regression(weight: nn.Parameter, bias: nn.Parameter) -> Callable[[Batch], Losses]:
    """Squared errors of a line, each example's own."""
    return lambda batch: Losses((batch[0] @ weight + bias - batch[1]).square())


@pytest.fixture
def line() -> tuple[nn.Parameter, nn.Parameter]:
    return nn.Parameter(torch.tensor([1.0, -2.0])), nn.Parameter(torch.tensor(0.5))


def data(count: int, seed: int = 0) -> Batch:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(count, 2, generator=random), torch.randn(count, generator=random)


def test_every_step_goes_down_the_gradient_of_its_own_batch(
    line: tuple[nn.Parameter, nn.Parameter],
) -> None:
    model, update = regression(*line), Clipped(torch.optim.SGD(line, lr=9.0), clip=1e9)
    for number in range(3):
        batch = data(6, number)
        expected = torch.autograd.grad(model(batch).total.mean(), line)
        before = [p.detach().clone() for p in line]
        wanted = model(batch).task.detach()
        losses = update(model, batch, 0.25)
        assert torch.equal(losses.task, wanted)
        for old, new, gradient in zip(before, line, expected, strict=True):
            torch.testing.assert_close(old - new.detach(), 0.25 * gradient)


@pytest.mark.parametrize("groups", [1, 2])
def test_no_step_is_longer_than_the_clip(
    groups: int, line: tuple[nn.Parameter, nn.Parameter]
) -> None:
    batch, model = data(6), regression(*line)
    gradient = torch.cat(
        [g.flatten() for g in torch.autograd.grad(model(batch).total.mean(), line)]
    )
    assert gradient.norm() > 0.1
    before = torch.cat([p.detach().clone().flatten() for p in line])
    given = [{"params": [p]} for p in line] if groups == 2 else list(line)
    Clipped(torch.optim.SGD(given, lr=1.0), clip=0.1)(model, batch, 1.0)
    moved = before - torch.cat([p.detach().flatten() for p in line])
    # The norm is that of all parameters together, and the direction stays.
    torch.testing.assert_close(moved, 0.1 * gradient / gradient.norm(), rtol=1e-4, atol=1e-6)


def test_every_step_has_its_own_rate_and_is_made_when_it_is_asked_for(
    line: tuple[nn.Parameter, nn.Parameter],
) -> None:
    optimizer = torch.optim.AdamW(line, lr=7.0)
    seen: list[float] = []
    optimizer.register_step_post_hook(lambda *_: seen.append(optimizer.param_groups[0]["lr"]))
    rates = [0.1, 0.3, 0.2, 0.05]
    steps = fit(regression(*line), (data(4, i) for i in range(4)), rates, Clipped(optimizer))
    assert seen == []
    for done, _ in enumerate(steps, 1):
        assert seen == rates[:done]
    assert seen == rates


def test_each_batch_has_a_rate(line: tuple[nn.Parameter, nn.Parameter]) -> None:
    update = Clipped(torch.optim.SGD(line))
    for count, rates in ((2, [0.1]), (1, [0.1, 0.1])):
        with pytest.raises(ValueError, match="zip"):
            list(fit(regression(*line), [data(2)] * count, rates, update))


@pytest.mark.parametrize("factor", [math.inf, math.nan])
def test_parameters_stay_numbers_when_there_is_nothing_to_follow(
    factor: float, line: tuple[nn.Parameter, nn.Parameter]
) -> None:
    before = [p.detach().clone() for p in line]
    update = Clipped(torch.optim.AdamW(line))
    with pytest.raises(SottovoceError, match="diverged") as caught:
        update(lambda batch: Losses(regression(*line)(batch).task * factor), data(3), 0.1)
    assert "smaller learning rate" in caught.value.fix
    # Either may be a number alone: the gradient, or, as after an overflow in the backward pass,
    # the loss.
    with pytest.raises(SottovoceError, match="diverged"):
        update(lambda batch: Losses(regression(*line)(batch).task + factor), data(3), 0.1)
    line[0].register_hook(lambda gradient: gradient * factor)
    with pytest.raises(SottovoceError, match="diverged"):
        update(regression(*line), data(3), 0.1)
    assert all(torch.equal(p, old) for p, old in zip(line, before, strict=True))


def test_the_total_weighs_the_reconstruction() -> None:
    task, reconstruction = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    assert torch.equal(Losses(task).total, task)
    assert Losses(task, reconstruction, 0.5).total.tolist() == [6.0, 12.0]


class PerExample:
    """An update as a private one is made: every example's gradient is clipped, and then the sum is
    divided by how many examples were expected. Noise would be added to the sum."""

    def __init__(self, parameters: tuple[nn.Parameter, ...], clip: float, expected: int) -> None:
        self._parameters, self._clip, self._expected = parameters, clip, expected

    def __call__(self, model: Callable[[Batch], Losses], batch: Batch, rate: float) -> Losses:
        losses = model(batch)
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter)
        for loss in losses.total:
            own = torch.autograd.grad(loss, self._parameters, retain_graph=True)
            norm = torch.cat([g.flatten() for g in own]).norm()
            for parameter, gradient in zip(self._parameters, own, strict=True):
                parameter.grad += gradient * min(1.0, self._clip / float(norm))
        with torch.no_grad():
            for parameter in self._parameters:
                parameter -= rate * parameter.grad / self._expected
        return losses


def test_a_private_update_fits_the_seam(line: tuple[nn.Parameter, nn.Parameter]) -> None:
    def sampled() -> Iterator[Batch]:  # as Poisson sampling gives them: of any size, also empty
        for step, size in enumerate((5, 0, 2)):
            yield data(size, step)

    def run(changed: bool) -> Tensor:
        weight, bias = (nn.Parameter(p.detach().clone()) for p in line)
        model = regression(weight, bias)
        update = PerExample((weight, bias), clip=0.05, expected=4)
        batches = list(sampled())
        if changed:  # one example of the first batch says something else, loudly
            batches[0] = (batches[0][0], batches[0][1] + torch.tensor([1e3, 0, 0, 0, 0]))
        steps = fit(model, batches[:1], [1.0], update)
        assert [len(losses.task) for losses in steps] == [5]
        for losses in fit(model, batches[1:], [0.5, 0.5], update):
            assert len(losses.task) in (0, 2)
        return torch.cat([weight.detach(), bias.detach()[None]])

    # Whatever one example says moves a step by no more than twice the clip over the expected size;
    # what follows moves on from there, and is clipped as well.
    assert (run(True) - run(False)).norm() <= 2 * 0.05 / 4 * (1 + 0.5 * 2) + 1e-6


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


def plan(seed: int = 0, epochs: int = 3, rows: int = 20) -> Plan:
    return Plan(
        range(rows),
        [3 + i % 5 for i in range(rows)],
        size=8,
        epochs=epochs,
        least_epochs=2,
        least_steps=50,
        seed=seed,
        warmup=0.1,
    )


def test_batches_hold_every_row_once_and_lie_near_in_length() -> None:
    lengths = [3 + (i * 7) % 40 for i in range(64)]
    made = batches(range(64), lengths, 8, seed=0, epoch=0)
    assert sorted(i for batch in made for i in batch) == list(range(64))
    assert max(max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in made) <= 10
    assert batches(range(64), lengths, 8, seed=0, epoch=0) == made
    assert batches(range(64), lengths, 8, seed=0, epoch=1) != made


def test_the_rate_rises_then_falls_and_never_reaches_zero() -> None:
    rates = [schedule(step, 100, 0.1) for step in range(100)]
    assert rates.index(max(rates)) == 9
    assert max(rates) == 1
    assert rates[-1] > 0


def test_every_epoch_sees_every_row_and_says_where_it_ends() -> None:
    made = plan()
    assert (made.epochs, made.steps) == (3, 9)
    for epoch in range(3):
        steps = range(3 * epoch, 3 * epoch + 3)
        assert sorted(i for step in steps for i in made.rows(step)) == list(range(20))
        assert {made.epoch(step) for step in steps} == {epoch}
    assert [done for done in range(1, 10) if made.ends_epoch(done)] == [3, 6, 9]


def test_a_plan_taken_up_midway_goes_on_as_it_was() -> None:
    whole, later = plan(seed=4), plan(seed=4)
    expected = [(whole.rows(s), whole.rate(s)) for s in range(9)]
    assert [(later.rows(s), later.rate(s)) for s in (7, 8, 2)] == [expected[s] for s in (7, 8, 2)]
    assert plan(seed=5).rows(0) != whole.rows(0)


def test_small_jobs_get_more_epochs() -> None:
    assert plan(epochs=0).epochs == 17  # 50 steps, 3 an epoch
    assert plan(epochs=0, rows=800).epochs == 2
