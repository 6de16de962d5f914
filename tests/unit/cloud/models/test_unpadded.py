"""Texts of different lengths in one pass: the states are those of each text alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.methods.lora import LoraUpdates, targets
from sottovoce.cloud.models.rows import Row, Unpadded, draw_prefix, draw_prompt, run
from tests.support.backbones import tiny_bert, tiny_encoder

LENGTHS = (31, 1, 5, 90, 6, 5, 200, 33)


def opened(family: str, folder: Path) -> Any:
    made = tiny_bert(folder) if family == "bert" else tiny_encoder(family, folder)
    return backbone.load(str(made)).model.requires_grad_(False)


def lora(encoder: Any, rank: int, feed_forward: bool) -> Row:
    layers = {
        name: encoder.get_submodule(name)
        for name in dict.fromkeys(
            [*targets(encoder, False), *(targets(encoder, True) if feed_forward else ())]
        )
    }
    tensors = {}
    for name, layer in layers.items():
        for which, shape in (
            ("A", (rank, layer.in_features)),
            ("B", (layer.out_features, rank)),
        ):
            tensors[f"base_model.model.{name}.lora_{which}.weight"] = 0.3 * torch.randn(shape)
    return Row(updates=LoraUpdates.of(layers, tensors, rank, 2.0))


def mixed(encoder: Any) -> tuple[list[Tensor], list[Row]]:
    torch.manual_seed(3)
    texts = [torch.randint(5, 30, (n,)) for n in LENGTHS]
    rows = [
        Row(prompt=draw_prompt(encoder, 3)),
        Row(prefix=draw_prefix(encoder, 4)),
        lora(encoder, 4, False),
        Row(),
        lora(encoder, 2, True),
        Row(prefix=draw_prefix(encoder, 2)),
        lora(encoder, 4, True),
        Row(prompt=draw_prompt(encoder, 1)),
    ]
    return texts, rows


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta"])
@torch.inference_mode()
def test_rows_of_all_kinds_and_lengths_are_as_each_alone(family: str, tmp_path: Path) -> None:
    encoder = opened(family, tmp_path / "tiny")
    unpadded = Unpadded.of(encoder)
    assert unpadded is not None
    texts, rows = mixed(encoder)
    together = unpadded(texts, rows)
    for found, text, row in zip(together, texts, rows, strict=True):
        alone = run(encoder, text[None], torch.ones(1, len(text)).long(), [row])[0]
        assert found.shape == alone.shape
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_input_embeddings_stand_for_ids(tmp_path: Path) -> None:
    encoder = opened("bert", tmp_path / "tiny")
    unpadded = Unpadded.of(encoder)
    assert unpadded is not None
    texts, rows = mixed(encoder)
    table = encoder.get_input_embeddings()
    for one, other in zip(
        unpadded(texts, rows), unpadded([table(text) for text in texts], rows), strict=True
    ):
        assert torch.equal(one, other)


def test_other_families_are_left_to_padding(families: dict[str, Path], tmp_path: Path) -> None:
    for name in ("qwen2", "llama", "mistral"):
        assert Unpadded.of(backbone.load(str(families[name])).model) is None
    assert Unpadded.of(opened("distilbert", tmp_path / "tiny")) is None
    encoder = opened("bert", tmp_path / "bert")
    encoder.config.is_decoder = True  # a token would see later ones
    assert Unpadded.of(encoder) is None
