"""A cut backbone computes what the whole one does, and only its tail can be adapted."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertModel, Qwen2Config, Qwen2Model, T5Config, T5Model

from bench.utility.trunk import cut
from sottovoce.cloud.models import virtual_tokens
from sottovoce.cloud.models.backbone import LoadedBackbone
from sottovoce.cloud.models.batches import Batch
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora, Method, Prefix
from sottovoce.core.errors import InvalidInput

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def tiny(family: str = "bert") -> LoadedBackbone:
    torch.manual_seed(0)
    model = {
        "bert": lambda: BertModel(BertConfig(**SIZES)),
        "qwen2": lambda: Qwen2Model(Qwen2Config(**SIZES, num_key_value_heads=2)),
        "t5": lambda: T5Model(T5Config(vocab_size=64, d_model=32, d_ff=48, d_kv=16, num_layers=2)),
    }[family]()
    return LoadedBackbone(family, "", model.eval(), None, Path())


def texts() -> tuple[Tensor, Tensor]:
    ids = torch.randint(5, 60, (3, 8), generator=torch.Generator().manual_seed(0))
    return ids, (torch.arange(8) < torch.tensor([8, 3, 5])[:, None]).long()


def test_trunk_and_tail_are_the_whole() -> None:
    ids, attention = texts()
    whole = tiny()
    with torch.no_grad():
        expected = virtual_tokens.run(whole.model, ids, attention)
        trunk, tail = cut(tiny(), 1)
        found = virtual_tokens.run(tail.model, trunk(ids, attention), attention)
        torch.testing.assert_close(found[attention.bool()], expected[attention.bool()])
        embedded = whole.model.get_input_embeddings()(ids)
        found = virtual_tokens.run(tail.model, trunk(embedded, attention), attention)
        torch.testing.assert_close(found[attention.bool()], expected[attention.bool()])
        # Without padding the tail finds its trunk by itself.
        alone = tail.model(input_ids=ids[:1]).last_hidden_state
        torch.testing.assert_close(alone, expected[:1])


@pytest.mark.parametrize("method", [Lora(), Prefix(tokens=3)])
def test_only_the_tail_is_adapted(method: Method) -> None:
    ids, attention = texts()
    trunk, tail = cut(tiny(), 1)
    states = trunk(ids, attention)
    model = TextClassifier(tail, method, 2)
    trained = [name for name in model.trained() if not name.startswith("head")]
    assert trained
    assert not any(".layer.1." in name for name in trained)  # one block only
    none = torch.full_like(ids, -100)
    logits, _ = model(Batch(states, attention, attention.float(), none, -torch.ones_like(ids)))
    logits.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.trained().values())
    assert not any(p.requires_grad for p in trunk.encoder.parameters())
    assert trunk(ids, attention).equal(states)


def test_copies_of_a_tail_share_the_trunk() -> None:
    trunk, tail = cut(tiny(), 1)
    copy = replace(tail, model=deepcopy(tail.model))
    assert copy.model.get_input_embeddings() is trunk.encoder.get_input_embeddings()
    assert copy.model.encoder.layer[0] is not tail.model.encoder.layer[0]


@pytest.mark.parametrize(("family", "blocks"), [("bert", 0), ("bert", 2), ("t5", 1), ("qwen2", 1)])
def test_what_cannot_be_cut_is_refused(family: str, blocks: int) -> None:
    with pytest.raises(InvalidInput, match="cannot be cut"):
        cut(tiny(family), blocks)
