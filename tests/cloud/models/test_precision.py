"""The frozen part goes through bfloat16, what is trained does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import from_options
from sottovoce.cloud.models.precision import to_bfloat16
from sottovoce.cloud.training.dataset import Dataset
from sottovoce.cloud.training.fit import Clipped, Labelled, Objective
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
