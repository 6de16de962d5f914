"""Decoders open whole, write as `transformers` has them write, or are refused with a fix."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sottovoce.cloud.models import decoder
from sottovoce.core.errors import InvalidInput, NotFound
from tests.support import decoders


@pytest.mark.parametrize("family", decoders.FAMILIES)
def test_every_family_opens_and_says_what_an_engine_needs(family: str, tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny", family)

    opened = decoder.load(str(folder))

    assert opened.name == "tiny"
    assert (opened.layers, opened.hidden_size) == (2, 48)
    assert (opened.vocabulary, opened.tokens, opened.context) == (
        640,
        len(opened.tokenizer),
        512,
    )
    assert not opened.model.training
    assert not any(p.requires_grad for p in opened.model.parameters())
    # An answer ends where the config says and where the template's turns do.
    assert opened.ends == {0, opened.tokenizer.convert_tokens_to_ids("<|im_end|>")}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_stack_and_output_give_the_models_logits(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny", "gemma3", final_logit_softcapping=0.2)
    opened = decoder.load(str(folder), dtype=dtype)
    ids = torch.arange(40)[None]  # past the sliding window

    with torch.no_grad():
        states = opened.stack(input_ids=ids).last_hidden_state
        wanted = opened.model(input_ids=ids).logits

    assert states.dtype == wanted.dtype == dtype
    assert opened.logits(states).dtype == torch.float32
    torch.testing.assert_close(opened.logits(states), wanted.float(), atol=2e-3, rtol=2e-2)


def test_weights_and_tokenizer_tell_decoders_apart(tmp_path: Path) -> None:
    one = decoder.load(str(decoders.save(tmp_path / "one")))
    assert decoder.load(str(decoders.save(tmp_path / "same"))).backbone.sha256 == (
        one.backbone.sha256
    )

    words = tmp_path / "same" / "tokenizer.json"
    words.write_text(words.read_text() + "\n")
    assert decoder.load(str(tmp_path / "same")).backbone.sha256 != one.backbone.sha256

    _change(tmp_path / "one", lambda name, t: t + 1 if name == "model.norm.weight" else t)
    assert decoder.load(str(tmp_path / "one")).backbone.sha256 != one.backbone.sha256


def test_weights_that_are_missing_are_not_made_up(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny")
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})

    with pytest.raises(InvalidInput, match="lacks some of its weights"):
        decoder.load(str(folder))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny")
    _change(folder, lambda name, t: t.fill_(torch.nan) if "layers.1.mlp.up" in name else t)

    with pytest.raises(InvalidInput, match="no numbers"):
        decoder.load(str(folder))


def test_a_tokenizer_that_loses_letters_is_refused(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny")
    file = folder / "tokenizer.json"
    facts = json.loads(file.read_text())
    facts["normalizer"] = {"type": "Lowercase"}
    file.write_text(json.dumps(facts))

    with pytest.raises(InvalidInput, match="does not give back what it is given"):
        decoder.load(str(folder))


def test_tokens_without_embeddings_are_refused(tmp_path: Path) -> None:
    folder = decoders.save(tmp_path / "tiny", vocab_size=398)

    with pytest.raises(InvalidInput, match="more tokens than the model"):
        decoder.load(str(folder))


def test_pickles_encoders_and_code_are_refused(tiny_encoder_decoder: Path, tmp_path: Path) -> None:
    pickled = decoders.save(tmp_path / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(InvalidInput, match="lacks safetensors"):
        decoder.load(str(pickled))

    for folder in (tiny_encoder_decoder, "default"):
        with pytest.raises(InvalidInput, match="not a language model that writes"):
            decoder.load(str(folder))

    coded = decoders.save(tmp_path / "coded")
    facts = json.loads((coded / "config.json").read_text())
    facts |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}}
    (coded / "config.json").write_text(json.dumps(facts))
    (coded / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        decoder.load(str(coded))
    assert not (tmp_path / "ran").exists()
    assert str(tmp_path) not in str(caught.value)

    with pytest.raises(NotFound):
        decoder.load(str(tmp_path / "absent"))


def _change(folder: Path, change: Callable[[str, torch.Tensor], Any]) -> None:
    file = folder / "model.safetensors"
    weights = {name: change(name, t) for name, t in load_file(file).items()}
    save_file(weights, file, {"format": "pt"})
