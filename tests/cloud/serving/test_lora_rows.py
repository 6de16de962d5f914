"""Rows get their own updates, as PEFT would give them one adapter at a time, and none stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import get_peft_model_state_dict
from torch import Tensor

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import adapt, encoder_of, lora_config, targets
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.serving.lora_rows import LoraRows
from sottovoce.core.errors import SottovoceError

FAMILIES = ("bert", "qwen2", "t5", "llama", "mistral")
IDS = torch.arange(4, 4 + 24).view(3, 8)


def peft_model(folder: Path, lora: Lora, seed: int) -> torch.nn.Module:
    """A backbone with random LoRA, by PEFT."""
    encoder = encoder_of(backbone.load(str(folder)).model)
    model: torch.nn.Module = adapt(encoder, lora_config(lora, targets(encoder, lora.feed_forward)))
    torch.manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.3 * torch.randn_like(parameter))
    return model.eval()


def states(model: torch.nn.Module, ids: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_each_row_is_as_peft_makes_it(family: str, families: dict[str, Path]) -> None:
    kinds = (Lora(rank=2, alpha=16), Lora(rank=5, alpha=5, feed_forward=True))
    models = [peft_model(families[family], lora, seed) for seed, lora in enumerate(kinds)]
    encoder = encoder_of(backbone.load(str(families[family])).model).eval()
    plain = states(encoder, IDS)
    rows = LoraRows(encoder)
    packed = [
        rows.pack(lora, get_peft_model_state_dict(model))
        for lora, model in zip(kinds, models, strict=True)
    ]
    assert [len(row) for row in packed] == [2, 5]
    with rows.applied([packed[0], None, packed[1]]):
        found = states(encoder, IDS)
    expected = [states(models[0], IDS[:1]), plain[1:2], states(models[1], IDS[2:])]
    assert (found - torch.cat(expected)).abs().max() < 1e-4
    assert not torch.allclose(found[0], plain[0], atol=1e-2)
    # ... and outside there is nothing left of it.
    assert torch.equal(states(encoder, IDS), plain)


def test_nothing_is_left_after_a_failure(families: dict[str, Path]) -> None:
    encoder = encoder_of(backbone.load(str(families["bert"])).model).eval()
    plain = states(encoder, IDS)
    rows = LoraRows(encoder)
    lora = Lora(rank=2)
    matrices = get_peft_model_state_dict(peft_model(families["bert"], lora, 0))
    with (
        pytest.raises(RuntimeError, match="the body's own"),
        rows.applied([rows.pack(lora, matrices)] * 3),
    ):
        raise RuntimeError("the body's own")
    assert torch.equal(states(encoder, IDS), plain)


def test_matrices_of_another_model_are_refused(families: dict[str, Path]) -> None:
    encoder = encoder_of(backbone.load(str(families["bert"])).model)
    rows, lora = LoraRows(encoder), Lora(rank=2)
    matrices = get_peft_model_state_dict(peft_model(families["bert"], lora, 0))
    first = next(iter(matrices))
    wrong = (
        {name: t for name, t in matrices.items() if name != first},
        {**matrices, "extra": matrices[first]},
        {**matrices, first: matrices[first][:, :-1]},
        {**matrices, first: matrices[first][:1]},
        get_peft_model_state_dict(peft_model(families["qwen2"], lora, 0)),
    )
    for tensors in wrong:
        with pytest.raises(SottovoceError, match="does not fit"):
            rows.pack(lora, tensors)
    with pytest.raises(SottovoceError, match="does not fit"):
        rows.pack(Lora(rank=2, feed_forward=True), matrices)
