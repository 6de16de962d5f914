"""Rows with their own prompts and prefixes come out of one pass as they do alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.methods.lora import LoraUpdates, targets
from sottovoce.cloud.models.rows import (
    Row,
    Unpadded,
    draw_prefix,
    draw_prompt,
    prefix_width,
    run,
    run_fronted,
)
from tests.support.backbones import ENCODERS, tiny_bert, tiny_encoder

FAMILIES = ("bert", "qwen2", "llama", "mistral", "t5")
LENGTHS = (7, 3, 5, 4)


def opened(families: dict[str, Path], family: str) -> Any:
    return encoder_of(backbone.load(str(families[family])).model).eval()


def texts() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 60, (len(LENGTHS), max(LENGTHS)), generator=generator)
    return ids, (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()


@pytest.mark.parametrize("family", FAMILIES)
def test_mixed_rows_equal_each_row_alone(family: str, families: dict[str, Path]) -> None:
    encoder = opened(families, family)
    torch.manual_seed(1)
    prompts = [draw_prompt(encoder, 4), None, None, draw_prompt(encoder, 2)]
    prefixes = [None, draw_prefix(encoder, 5), None, draw_prefix(encoder, 3)]
    ids, attention = texts()
    with torch.no_grad():
        together = run_fronted(encoder, ids, attention, prompts=prompts, prefixes=prefixes)
        for row, n in enumerate(LENGTHS):
            alone = run_fronted(
                encoder,
                ids[row : row + 1, :n],
                attention[row : row + 1, :n],
                prompts=prompts[row : row + 1],
                prefixes=prefixes[row : row + 1],
            )
            assert alone.shape == (1, n, encoder.config.hidden_size)
            torch.testing.assert_close(together[row, :n], alone[0], atol=1e-4, rtol=0)
        plain = run_fronted(encoder, ids[2:3, :5], attention[2:3, :5])
        torch.testing.assert_close(together[2, :5], plain[0], atol=1e-4, rtol=0)


@pytest.mark.parametrize("family", ENCODERS)
@torch.no_grad()
def test_a_prompt_of_real_tokens_is_those_tokens(family: str, tmp_path: Path) -> None:
    encoder = encoder_of(backbone.load(str(tiny_encoder(family, tmp_path / "tiny"))).model).eval()
    ids = torch.randint(5, 60, (1, 9), generator=torch.Generator().manual_seed(0))
    prompt = encoder.get_input_embeddings()(ids[0, :4])
    found = run_fronted(encoder, ids[:, 4:], torch.ones(1, 5).long(), prompts=[prompt])
    wanted = encoder(input_ids=ids).last_hidden_state[:, 4:]
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_both_kinds_change_the_states_and_can_be_learnt(
    family: str, families: dict[str, Path]
) -> None:
    encoder = opened(families, family)
    encoder.requires_grad_(False)
    ids, attention = texts()
    bare = run_fronted(encoder, ids, attention)
    for draw, name in ((draw_prompt, "prompts"), (draw_prefix, "prefixes")):
        virtual = draw(encoder, 3).requires_grad_()
        states = run_fronted(encoder, ids, attention, **{name: [virtual] * len(ids)})
        assert states.shape == bare.shape
        assert (states - bare)[attention.bool()].abs().max() > 1e-3
        states.square().sum().backward()
        assert virtual.grad is not None
        assert bool((virtual.grad.abs().sum(1) > 0).all())  # every virtual token is heard


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prefix_starts_as_the_keys_and_values_of_real_tokens(
    family: str, families: dict[str, Path]
) -> None:
    encoder = opened(families, family)
    torch.manual_seed(2)
    prefix = draw_prefix(encoder, 6)
    assert prefix.shape == (6, prefix_width(encoder.config))
    assert torch.isfinite(prefix).all()
    # Drawn tokens, not one vector six times.
    assert len(torch.unique(prefix, dim=0)) == 6
    prompt = draw_prompt(encoder, 6)
    table = encoder.get_input_embeddings().weight
    assert all(bool((table == row).all(1).any()) for row in prompt)


def test_input_embeddings_stand_for_ids(families: dict[str, Path]) -> None:
    encoder = opened(families, "bert")
    ids, attention = texts()
    embeds = encoder.get_input_embeddings()(ids)
    prompt = draw_prompt(encoder, 3)
    for prompts in ((), [prompt, None, prompt, None]):
        torch.testing.assert_close(
            run_fronted(encoder, embeds, attention, prompts=prompts),
            run_fronted(encoder, ids, attention, prompts=prompts),
        )


UNPADDED_LENGTHS = (31, 1, 5, 90, 6, 5, 200, 33)


def unpadded_opened(family: str, folder: Path) -> Any:
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
    texts = [torch.randint(5, 30, (n,)) for n in UNPADDED_LENGTHS]
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
    encoder = unpadded_opened(family, tmp_path / "tiny")
    unpadded = Unpadded.of(encoder)
    assert unpadded is not None
    texts, rows = mixed(encoder)
    together = unpadded(texts, rows)
    for found, text, row in zip(together, texts, rows, strict=True):
        alone = run(encoder, text[None], torch.ones(1, len(text)).long(), [row])[0]
        assert found.shape == alone.shape
        torch.testing.assert_close(found, alone, atol=1e-5, rtol=0)


@torch.inference_mode()
def test_input_embeddings_stand_for_ids_unpadded(tmp_path: Path) -> None:
    encoder = unpadded_opened("bert", tmp_path / "tiny")
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
    assert Unpadded.of(unpadded_opened("distilbert", tmp_path / "tiny")) is None
    encoder = unpadded_opened("bert", tmp_path / "bert")
    encoder.config.is_decoder = True  # a token would see later ones
    assert Unpadded.of(encoder) is None
