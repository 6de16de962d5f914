"""Frozen weights use bfloat16, trained ones do not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.func import functional_call

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.backbone import pack, to_bfloat16
from sottovoce.cloud.models.batches import Dataset
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.training.run import Clipped, Labelled, Objective
from tests.support.examples import examples


@pytest.mark.parametrize("method", ["lora", "prompt", "prefix"])
@pytest.mark.parametrize("family", ["bert", "t5", "qwen2"])
def test_gradients_in_bfloat16_point_where_those_in_float32_do(
    method: str, family: str, families: dict[str, Path]
) -> None:
    options = TrainingOptions(method)
    name = str(families[family])

    def gradients(light: bool) -> dict[str, torch.Tensor]:
        loaded = backbone.load(name)
        data = Dataset.of(examples(16), options, loaded.tokenizer)
        torch.manual_seed(0)
        model = TextClassifier(loaded, from_options(options), len(data.labels)).eval()
        torch.manual_seed(1)
        with torch.no_grad():  # LoRA starts with zeros, and half of the gradients with them
            for parameter in model.trained().values():
                parameter.add_(torch.randn_like(parameter) * 0.05)
        before = {n: p.detach().clone() for n, p in model.trained().items()}
        if light:
            to_bfloat16(model.encoder)
        optimizer = torch.optim.SGD(model.trained().values(), lr=1.0)
        Clipped(optimizer, clip=1e9)(
            Objective(model), Labelled(data.batch(range(16)), data.targets), 1.0
        )
        return {n: before[n] - p.detach() for n, p in model.trained().items()}

    exact, light = gradients(False), gradients(True)
    assert all(g.dtype == torch.float32 for g in light.values())
    a, b = (torch.cat([g.flatten() for g in each.values()]) for each in (exact, light))
    assert torch.nn.functional.cosine_similarity(a, b, dim=0) > 0.99


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backbone, "WORTH", 0.0)


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


def test_bfloat16_is_laid_out_too_where_the_processor_has_it() -> None:
    model = layers().requires_grad_(False).to(torch.bfloat16)
    inputs = torch.randn(5, 24, dtype=torch.bfloat16)
    before = model(inputs)
    assert pack(model) == torch.ops.mkldnn._is_mkldnn_bf16_supported()
    assert torch.allclose(model(inputs), before, atol=1e-2)


def test_what_is_trained_or_of_other_numbers_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not pack(layers())
    assert not pack(layers().requires_grad_(False).double())
    monkeypatch.setattr(backbone, "WORTH", float("inf"))
    model = layers().requires_grad_(False)
    assert not pack(model)
    assert model[0].weight.untyped_storage().nbytes() == 4 * 24 * 40
