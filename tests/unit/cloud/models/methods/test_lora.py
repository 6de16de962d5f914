"""Rows get their own updates, as PEFT would give them one adapter at a time, and none stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from peft import get_peft_model_state_dict
from torch import Tensor

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.models.methods.lora import adapt, lora_config, targets
from sottovoce.cloud.models.rows import Row, run
from sottovoce.core.errors import SottovoceError

FAMILIES = ("bert", "qwen2", "t5", "llama", "mistral")
IDS = torch.arange(4, 4 + 24).view(3, 8)
PLAIN = [Row()] * 3


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


def states(model: torch.nn.Module, ids: Tensor, rows: list[Row]) -> Tensor:
    with torch.no_grad():
        return run(model, ids, torch.ones_like(ids), rows)


@pytest.mark.parametrize("family", FAMILIES)
def test_each_row_is_as_peft_makes_it(family: str, families: dict[str, Path]) -> None:
    kinds = (Lora(rank=2, alpha=16), Lora(rank=5, alpha=5, feed_forward=True))
    models = [peft_model(families[family], lora, seed) for seed, lora in enumerate(kinds)]
    encoder = encoder_of(backbone.load(str(families[family])).model).eval()
    plain = states(encoder, IDS, PLAIN)
    rows = [
        lora.row(encoder, get_peft_model_state_dict(model))
        for lora, model in zip(kinds, models, strict=True)
    ]
    assert [len(row.updates.packed) for row in rows if row.updates] == [2, 5]
    found = states(encoder, IDS, [rows[0], Row(), rows[1]])
    alone = [
        states(model, IDS[i : i + 1], [Row()]) for i, model in zip((0, 2), models, strict=True)
    ]
    expected = [alone[0], plain[1:2], alone[1]]
    assert (found - torch.cat(expected)).abs().max() < 1e-4
    assert not torch.allclose(found[0], plain[0], atol=1e-2)
    # ... and afterwards there is nothing left of it.
    assert torch.equal(states(encoder, IDS, PLAIN), plain)


def test_nothing_is_left_after_a_failure(families: dict[str, Path]) -> None:
    encoder = encoder_of(backbone.load(str(families["bert"])).model).eval()
    plain = states(encoder, IDS, PLAIN)
    lora = Lora(rank=2)
    row = lora.row(encoder, get_peft_model_state_dict(peft_model(families["bert"], lora, 0)))
    beyond = torch.full_like(IDS, 10**6)
    with pytest.raises(IndexError):
        states(encoder, beyond, [row] * 3)
    assert torch.equal(states(encoder, IDS, PLAIN), plain)


def test_matrices_of_another_model_are_refused(families: dict[str, Path]) -> None:
    encoder = encoder_of(backbone.load(str(families["bert"])).model)
    lora = Lora(rank=2)
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
            lora.row(encoder, tensors)
    with pytest.raises(SottovoceError, match="does not fit"):
        Lora(rank=2, feed_forward=True).row(encoder, matrices)
