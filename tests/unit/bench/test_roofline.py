"""The useful work of a pass is counted as by hand, and generation has its rows."""

from __future__ import annotations

import pytest
import torch
from transformers import BertConfig, LlamaConfig

from bench.speed import generation_serving, roofline
from bench.speed.roofline import Shapes


def test_an_encoders_work_is_its_layers_attention_and_updates() -> None:
    config = BertConfig(
        hidden_size=8, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
    )
    weights = 2 * (4 * 8 * 8 + 2 * 8 * 32)
    attention = 2 * 4 * 8 * (3 * 3 + 5 * 5)
    assert Shapes(config).operations([3, 5]) == 2 * 8 * weights + attention
    updates = 2 * 4 * 2 * 3 * (8 + 8)
    assert Shapes(config, 3).operations([3, 5]) == 2 * 8 * weights + attention + 8 * updates
    activations = 2 * (4 * 16 + 2 * 40)
    assert Shapes(config).bytes([3, 5], 4) == 4 * (weights + 8 * activations)
    assert Shapes(config, 3).bytes([3, 5], 4) == 4 * (weights + 8 * activations + updates)
    assert Shapes(config).kernel(6, torch.float32)[1] == 2 * 6 * weights / 2


def test_a_decoders_work_has_gates_shared_heads_caches_and_an_output_layer() -> None:
    config = LlamaConfig(
        hidden_size=8,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        vocab_size=100,
    )
    shapes = Shapes(config, writes=True)
    weights, output = 2 * (2 * 8 * 8 + 2 * 8 * 2 + 3 * 8 * 32), 8 * 100
    one = 2 * (weights + output)
    assert shapes.operations([1, 1], 9) == 2 * (one + 2 * 4 * 8 * 10)
    assert shapes.operations([3]) == 3 * 2 * weights + 2 * output + 2 * 4 * 8 * (1 + 2 + 3)
    activations = 2 * (2 * 16 + 2 * 10 + 3 * 40) + 108
    caches = 9 * 2 * 2 * 2
    assert shapes.bytes([1, 1], 4, 9) == 4 * (weights + output + 2 * (activations + caches))
    assert shapes.kernel(6, torch.float32)[1] == 6 * one


def test_generation_is_measured_beside_products_of_as_many_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"LAYERS": 2, "WIDTH": 32, "TOKENS": 64}.items():
        monkeypatch.setattr(generation_serving, name, value)
    rows = roofline.generation("float32", 1)
    assert [row["what"] for row in rows] == [
        "writing 1 at once",
        "writing 8 at once",
        "writing 32 at once",
        "writing 32 at once, of as many adapters",
        "reading a prompt of 512 tokens",
    ]
    one, _, plain, adapted, read = (row["gigaoperations"] for row in rows)
    assert plain == pytest.approx(32 * one)
    assert plain < adapted < read
    assert all(row["share"] > 0 for row in rows)
