"""A loss that any allowed answer satisfies, and weights that are averaged on the way."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from sottovoce.models.tagger.learning import NO_WORD, averaged, pace, partial_loss


def test_loss_asks_for_any_of_the_allowed_tags() -> None:
    scores = torch.log(torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]]]))
    allowed = torch.tensor([[0b011, 0b100, NO_WORD]])
    expected = -(np.log(0.8) + np.log(0.8)) / 2
    assert float(partial_loss(scores, allowed)) == pytest.approx(expected, abs=1e-6)
    weighted = partial_loss(scores, torch.tensor([[1, 1, 0]]), torch.tensor([[3.0, 1.0, 9.0]]))
    expected = -(3 * np.log(0.5) + np.log(0.1)) / 4
    assert float(weighted) == pytest.approx(expected, abs=1e-6)


def test_what_comes_out_is_the_running_average_of_the_weights() -> None:
    network, passed = nn.Linear(1, 1, bias=False).eval(), []
    was_training = []

    def losses() -> Iterator[tuple[float, Tensor]]:
        for step in range(41):
            was_training.append(network.training)
            passed.append(network.weight.item())
            yield step / 41, (network.weight - 3).square().sum()

    told: list[tuple[str, int, int]] = []
    out = averaged(network, losses(), 0.1, 0.75, lambda *now: told.append(now))
    passed.append(network.weight.item())
    expected = passed[1]  # the average starts with the weights after the first step
    for weight in passed[2:]:
        expected = 0.75 * expected + 0.25 * weight
    assert out.weight.item() == pytest.approx(expected, abs=1e-5)
    assert abs(passed[-1] - 3) < abs(passed[0] - 3)
    assert (all(was_training), out.training) == (True, False)
    assert [done for _, done, _ in told] == [0, 1000 * 20 // 41, 1000 * 40 // 41]


def test_the_pace_rises_and_falls_to_almost_nothing() -> None:
    assert pace(0) == pace(1) == pytest.approx(0.001)
    assert pace(0.05) == pytest.approx(1.001, abs=0.01)
    paces = [pace(done) for done in np.linspace(0.05, 1, 20)]
    assert paces == sorted(paces, reverse=True)
