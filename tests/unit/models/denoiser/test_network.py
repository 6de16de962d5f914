"""The networks ignore padding, and (c) without an answer does not see it."""

import pytest
import torch

from sottovoce.models.denoiser_training import Network, Size

SIZE = Size(width=24, table=12, state=16, layers=2, heads=2, hidden=20, mixing=16)


@pytest.fixture
def network() -> Network:
    torch.manual_seed(0)
    network = Network(SIZE)
    for parameter in network.parameters():  # some start at nothing
        torch.nn.init.normal_(parameter, std=0.3)
    return network.eval()


def inputs(n: int, batch: int = 1, size: Size = SIZE) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(n)
    rows, answer = torch.randn(batch, n, size.table), torch.randn(batch, size.width)
    return rows, torch.ones(batch, n), answer, torch.full((batch,), 20.0), torch.ones(batch)


@torch.no_grad()
def test_padding_changes_nothing(network: Network) -> None:
    rows, mask, *rest = inputs(5)
    padded = torch.cat([rows, torch.randn(1, 4, SIZE.table)], 1)
    longer = torch.cat([mask, torch.zeros(1, 4)], 1)

    torch.testing.assert_close(
        network(padded, longer, *rest), network(rows, mask, *rest), atol=1e-5, rtol=0
    )


@torch.no_grad()
def test_an_answer_counts_only_where_there_is_one(network: Network) -> None:
    rows, mask, answer, eta, helped = inputs(6)
    other = torch.randn_like(answer)
    alone = network(rows, mask, answer, eta, helped * 0)

    torch.testing.assert_close(network(rows, mask, other, eta * 2, helped * 0), alone)
    assert not torch.allclose(network(rows, mask, other, eta, helped), alone, atol=1e-3)
    assert not torch.allclose(
        network(rows, mask, answer, eta, helped), network(rows, mask, other, eta, helped), atol=1e-3
    )


@torch.no_grad()
def test_order_matters_and_lengths_are_one(network: Network) -> None:
    rows, mask, *rest = inputs(6)
    found = network(rows, mask, *rest)

    assert found.norm().item() == pytest.approx(1, abs=1e-5)
    assert not torch.allclose(network(rows.flip(1), mask, *rest), found, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(("tokens", "published"), [(16, 144e6), (64, 614e6), (128, 1_366e6)])
def test_ours_costs_at_most_a_quarter_of_the_published_one(tokens: int, published: float) -> None:
    """Split-and-Denoise's table 8, the row for DistilBERT at half its width: see docs/snd.md.

    Hooks on the layers count multiplications. Attention's two products are added by hand.
    """
    size = Size()
    counted = size.layers * 2 * tokens**2 * size.state

    def count(layer: torch.nn.Module, given: tuple[torch.Tensor, ...], out: torch.Tensor) -> None:
        nonlocal counted
        if isinstance(layer, torch.nn.Conv1d):
            counted += out.numel() * layer.kernel_size[0]
        elif isinstance(layer, torch.nn.Linear):
            counted += out.numel() * layer.in_features

    network = Network(size)
    for layer in network.modules():
        layer.register_forward_hook(count)
    network(*inputs(tokens, size=size))
    assert 4 * counted <= published
