"""The network sees what it should and nothing beyond an empty place."""

import pytest
import torch

from sottovoce.core.text.tagger import UPOS
from sottovoce.models.tagger.network import Network, Size

SIZE = Size(rows=(32,) * 8, feature_width=8, width=16, depth=2)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(1)
    return Network(SIZE).eval()


@pytest.fixture
def rows() -> torch.Tensor:
    return torch.randint(0, 32, (2, 11, 16), generator=torch.Generator().manual_seed(2))


def test_scores_every_tag_of_every_word(network: Network, rows: torch.Tensor) -> None:
    assert network(rows, torch.ones(2, 11)).shape == (2, 11, len(UPOS))


def test_a_score_depends_on_as_many_words_as_there_are_layers(
    network: Network, rows: torch.Tensor
) -> None:
    changed = rows.clone()
    changed[:, 5] = 0
    difference = network(rows, torch.ones(2, 11)) - network(changed, torch.ones(2, 11))
    moved = difference.abs().amax((0, 2)) > 1e-6
    assert moved.nonzero().flatten().tolist() == [3, 4, 5, 6, 7]


def test_an_empty_place_keeps_passages_apart(network: Network, rows: torch.Tensor) -> None:
    present = torch.ones(2, 11)
    present[:, 5] = 0
    together = network(rows, present)[:, :5]
    alone = network(rows[:, :5], torch.ones(2, 5))
    torch.testing.assert_close(together, alone)
