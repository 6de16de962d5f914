"""LoRA goes into the blocks of every family, and nothing else can be trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from sottovoce.cloud import backbone
from sottovoce.cloud.data import collate, encode
from sottovoce.cloud.model import Lora, TextClassifier, encoder_of, pool, targets
from sottovoce.edge.errors import InvalidInput

from .cloud_kit import examples, tiny_bert


@pytest.mark.parametrize("family", ["bert", "decoder", "encoder_decoder"])
def test_every_family_trains_lora_and_heads_only(
    family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = (
        tiny_bert(tmp_path / "bert")
        if family == "bert"
        else request.getfixturevalue(f"tiny_{family}")
    )
    loaded = backbone.load(str(folder))
    before = {n: p.clone() for n, p in encoder_of(loaded.model).named_parameters()}
    model = TextClassifier(loaded.model, Lora(), labels=3, vocabulary=5)
    rows = examples(4, plain=3)
    vocabulary = {i: i % 5 for i in range(100)}
    encoded = encode(loaded.tokenizer, [row.text for row in rows], rows)
    batch = collate(encoded, loaded.tokenizer.pad_token_id, vocabulary)

    logits, plain = model(batch)
    assert logits.shape == (4, 3)
    assert plain is not None
    assert plain.shape == (12, 5)
    (logits.square().sum() + plain.square().sum()).backward()

    trained = model.trained()
    assert {n.split(".")[0] for n in trained} == {"encoder", "head", "reconstruction"}
    assert all("lora_" in n for n in trained if n.startswith("encoder."))
    assert len([n for n in trained if "lora_" in n]) == 2 * len(
        targets(backbone.load(str(folder)).model.get_encoder(), False)
        if family == "encoder_decoder"
        else targets(backbone.load(str(folder)).model, False)
    )
    # B starts at zero, so the first gradient reaches B and the heads.
    assert all(p.grad is not None for p in trained.values())
    assert any(
        bool(p.grad.any()) for n, p in trained.items() if "lora_B" in n and p.grad is not None
    )
    after = dict(model.encoder.named_parameters())
    untouched = {
        n.removeprefix("base_model.model.").replace(".base_layer", ""): p for n, p in after.items()
    }
    assert all(torch.equal(untouched[n], p) for n, p in before.items())


def test_attention_only_unless_feed_forward_is_asked_for(tmp_path: Path) -> None:
    model = backbone.load(str(tiny_bert(tmp_path / "bert"))).model
    attention, wide = targets(model, False), targets(model, True)
    assert len(attention) == 2 * 4
    assert len(wide) == 2 * 6
    assert not any("pooler" in name for name in wide)


def test_a_model_without_blocks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no linear layers"):
        targets(nn.Sequential(nn.Embedding(3, 2)), False)


def test_pooling_takes_the_mean_over_marked_positions() -> None:
    hidden = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [100.0, 100.0]]])
    assert pool(hidden, torch.tensor([[1.0, 1.0, 0.0]])).tolist() == [[2.0, 3.0]]


def test_restore_brings_back_what_trained_gave(tmp_path: Path) -> None:
    model = TextClassifier(backbone.load(str(tiny_bert(tmp_path / "bert"))).model, Lora(), 2)
    kept = {n: p.detach().clone() for n, p in model.trained().items()}
    with torch.no_grad():
        for p in model.trained().values():
            p += 1
    model.restore(kept)
    assert all(torch.equal(p, kept[n]) for n, p in model.trained().items())


def test_only_the_dropout_of_lora_is_switched(tmp_path: Path) -> None:
    loaded = backbone.load(str(tiny_bert(tmp_path / "bert")))
    model = TextClassifier(loaded.model, Lora(dropout=0.5), 2).eval()
    model.train_adapter(True)
    on = {n for n, m in model.named_modules() if isinstance(m, nn.Dropout) and m.training}
    assert on
    assert all("lora_dropout" in n for n in on)
