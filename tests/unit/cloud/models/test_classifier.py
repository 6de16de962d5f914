"""Every method fits every family, and nothing but its own parameters and the heads is trained."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.batches import collate, encode
from sottovoce.cloud.models.classifier import TextClassifier, encoder_of, pool
from sottovoce.cloud.models.methods import Full, Lora, Method, Prefix, Prompt
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.core.errors import InvalidInput
from tests.support.backbones import tiny_bert
from tests.support.examples import examples

METHODS = (Lora(), Prompt(4), Prefix(3), Full())
FAMILIES = ("bert", "qwen2", "llama", "mistral", "t5")


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_method_trains_its_own_and_the_heads_only(
    family: str, method: Method, families: dict[str, Path]
) -> None:
    loaded = backbone.load(str(families[family]))
    before = {n: p.clone() for n, p in encoder_of(loaded.model).named_parameters()}
    linear = len(targets(encoder_of(loaded.model), False))
    model = TextClassifier(loaded, method, labels=3, vocabulary=5, width=7)
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
    heads = {"head.weight", "head.bias", "reconstruction.w1.weight", "reconstruction.w2.weight"}
    own = {n for n in trained if n not in heads}
    assert heads <= set(trained)
    match method:
        case Lora():
            assert all(".lora_" in n for n in own)
            assert len(own) == 2 * linear
        case Full():
            assert own == {f"adapted.encoder.{n}" for n in before}
        case _:
            assert own == {"adapted.beside.prompt_embeddings"}
    assert len(model.adapted.tensors()) == len(own)
    unused = (
        {"adapted.encoder.pooler"} if family == "bert" else set()
    )  # we pool, BERT's own is idle
    for name in own:
        if not any(name.startswith(idle) for idle in unused):
            assert trained[name].grad is not None, name
    # LoRA's B starts at zero, so the first gradient reaches B and the heads.
    assert any(bool(trained[n].grad.any()) for n in own if trained[n].grad is not None)  # type: ignore[union-attr]
    after = {
        n.removeprefix("base_model.model.").replace(".base_layer", ""): p
        for n, p in model.encoder.named_parameters()
    }
    assert all(torch.equal(after[n], p) for n, p in before.items())


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
    model = TextClassifier(backbone.load(str(tiny_bert(tmp_path / "bert"))), Lora(), 2)
    kept = {n: p.detach().clone() for n, p in model.trained().items()}
    with torch.no_grad():
        for p in model.trained().values():
            p += 1
    model.restore(kept)
    assert all(torch.equal(p, kept[n]) for n, p in model.trained().items())
