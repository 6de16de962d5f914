"""Packed layers compute the same, for any shape of input, and with other weights those."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import functional_call

from sottovoce.cloud.models import precision
from sottovoce.cloud.models.precision import pack


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is faster depends on the machine; what comes out does not."""
    monkeypatch.setattr(precision, "WORTH", 0.0)


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(24, 40), nn.GELU(), nn.Linear(40, 8, bias=False))


@pytest.mark.parametrize("shape", [(24,), (5, 24), (3, 7, 24), (1, 1, 24)])
def test_the_same_comes_out(shape: tuple[int, ...]) -> None:
    model = layers().requires_grad_(False)
    inputs = torch.randn(shape)
    before = model(inputs)
    assert pack(model)
    with torch.inference_mode():
        assert torch.allclose(model(inputs), before, atol=1e-6)
        turned = torch.randn(24, 6).T  # not contiguous
        assert torch.allclose(model(turned), layers()(turned), atol=1e-6)


def test_weights_take_no_second_copy_and_others_may_take_their_place() -> None:
    model = layers().requires_grad_(False)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    pack(model)
    assert {name: p.shape for name, p in model.named_parameters()} == shapes
    assert model[0].weight.untyped_storage().nbytes() == 4
    other = layers()
    nn.init.normal_(other[0].weight)
    inputs = torch.randn(4, 24)
    found = functional_call(model, dict(other.named_parameters()), (inputs,))
    assert torch.allclose(found, other(inputs), atol=1e-6)
    assert not torch.allclose(model(inputs), other(inputs), atol=1e-2)


def test_what_is_trained_or_not_float32_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not pack(layers())
    assert not pack(layers().requires_grad_(False).to(torch.bfloat16))
    monkeypatch.setattr(precision, "WORTH", float("inf"))
    model = layers().requires_grad_(False)
    assert not pack(model)
    assert model[0].weight.untyped_storage().nbytes() == 4 * 24 * 40
