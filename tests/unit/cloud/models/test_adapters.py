"""An adapter folder holds the adapter and nothing else, and is swapped in one step."""

from __future__ import annotations

import json
from pathlib import Path

import peft
import pytest
import torch
from safetensors.torch import load_file

from sottovoce.cloud.job import TrainingOptions
from sottovoce.cloud.models import adapters, backbone
from sottovoce.cloud.models.classifier import TextClassifier
from sottovoce.cloud.models.methods import Lora, lora
from sottovoce.cloud.models.methods.lora import targets
from sottovoce.cloud.training.run import Result
from sottovoce.cloud.training.trainer import train
from sottovoce.core.errors import DataLoss, SottovoceError
from tests.support.examples import examples


@pytest.fixture
def trained(bert: str, tmp_path: Path) -> Result:
    """An adapter trained with reconstruction."""
    options = TrainingOptions(
        reconstruction=True, plain_tokens=3, epochs=4, batch_size=8, learning_rate=1e-2
    )
    return train(
        examples(24, plain=3),
        options,
        backbone.load(bert),
        tmp_path / "adapter",
        origin={"bundle_id": "b1"},
    )


def test_the_folder_holds_lora_and_head_only(trained: Result, bert: str) -> None:
    assert sorted(f.name for f in trained.folder.iterdir()) == [
        "adapter.json",
        "adapter_model.safetensors",
        "head.safetensors",
    ]
    matrices = load_file(trained.folder / "adapter_model.safetensors")
    layers = targets(backbone.load(bert).model, False)
    assert len(matrices) == 2 * len(layers)
    assert {tuple(t.shape) for t in matrices.values()} == {(8, 32), (32, 8)}
    assert any(bool(t.any()) for name, t in matrices.items() if "lora_B" in name)
    head = load_file(trained.folder / "head.safetensors")
    assert {n: tuple(t.shape) for n, t in head.items()} == {"weight": (3, 32), "bias": (3,)}
    facts = json.loads((trained.folder / "adapter.json").read_text())
    assert facts["backbone"]["sha256"] == backbone.load(bert).sha256
    assert facts["labels"] == ["garden", "kitchen", "office"]
    assert adapters.load(trained.folder).origin["bundle_id"] == "b1"
    assert not list(trained.folder.parent.glob(".*"))


def test_what_peft_does_not_give_is_not_saved(bert: str, tmp_path: Path) -> None:
    loaded = backbone.load(bert)
    model = TextClassifier(loaded, Lora(), 2)
    model.encoder.unload()
    # As PEFT has it: no error, and nothing to save.
    assert peft.get_peft_model_state_dict(model.encoder) == {}
    with pytest.raises(SottovoceError, match="could not be taken out of the model"):
        adapters.save(tmp_path / "x", model, ("a", "b"), loaded, {})
    assert list(tmp_path.iterdir()) == []


def test_only_what_was_trained_is_saved(
    bert: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = backbone.load(bert)
    model = TextClassifier(loaded, Lora(), 2)
    whole = peft.get_peft_model_state_dict(model.encoder)
    (first, tensor), *others = whole.items()
    elsewhere = {"a base_layer's": model.encoder.get_input_embeddings().weight}
    for given in ({}, dict(others), {**whole, first: tensor.clone()}, {**whole, **elsewhere}):
        monkeypatch.setattr(lora, "get_peft_model_state_dict", lambda _, given=given: given)
        with pytest.raises(SottovoceError, match="could not be taken out of the model"):
            adapters.save(tmp_path / "x", model, ("a", "b"), loaded, {})
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(lora, "get_peft_model_state_dict", lambda _: whole)
    adapters.save(tmp_path / "x", model, ("a", "b"), loaded, {})
    assert adapters.load(tmp_path / "x").tensors.keys() == whole.keys()


def test_load_gives_what_was_saved_or_says_it_is_damaged(trained: Result) -> None:
    adapter = adapters.load(trained.folder)
    assert adapter.labels == trained.labels
    assert adapter.weight is not None
    assert torch.equal(adapter.weight, load_file(trained.folder / "head.safetensors")["weight"])
    for name in ("head.safetensors", "adapter_model.safetensors", "adapter.json"):
        file = trained.folder / name
        whole = file.read_bytes()
        file.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(DataLoss, match="damaged"):
            adapters.load(trained.folder)
        file.unlink()
        with pytest.raises(DataLoss, match="damaged"):
            adapters.load(trained.folder)
        file.write_bytes(whole)
    adapters.load(trained.folder)


@pytest.mark.parametrize("name", ["head.safetensors", "adapter_model.safetensors"])
def test_a_flipped_bit_is_noticed(trained: Result, name: str) -> None:
    file = trained.folder / name
    data = bytearray(file.read_bytes())
    data[-5] ^= 1  # of a number: the file is as readable as before
    file.write_bytes(data)
    with pytest.raises(DataLoss, match="damaged"):
        adapters.load(trained.folder)


@pytest.mark.parametrize("facts", ["[]", "null", '{"sha256": []}', '{"labels": 1}'])
def test_a_description_that_is_something_else_is_damage(trained: Result, facts: str) -> None:
    (trained.folder / "adapter.json").write_text(facts)
    with pytest.raises(DataLoss, match="damaged"):
        adapters.load(trained.folder)


@pytest.mark.parametrize("name", ["labels", "label_words", "sha256", "task"])
def test_a_description_that_lacks_a_fact_is_damage(trained: Result, name: str) -> None:
    file = trained.folder / "adapter.json"
    facts = json.loads(file.read_bytes())
    del facts[name]
    file.write_text(json.dumps(facts))
    with pytest.raises(DataLoss, match="damaged"):
        adapters.load(trained.folder)


def test_fingerprints_tell_runs_apart() -> None:
    options = TrainingOptions()
    same = adapters.fingerprint(("a",), options, 1)
    assert adapters.fingerprint(("a",), TrainingOptions(), 1) == same
    assert adapters.fingerprint(("a",), TrainingOptions(seed=1), 1) != same
    assert adapters.fingerprint(("b",), options, 1) != same
