"""Backbones of every family load by name or path, and are known by their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer

from sottovoce.cloud.models import backbone
from sottovoce.core.errors import InvalidInput, NotFound
from tests.support import decoders
from tests.support.backbones import TEXT, tiny_bert, tiny_encoder_decoder


def test_the_default_needs_no_download() -> None:
    loaded = backbone.load()

    assert loaded.name == "all-MiniLM-L6-v2"
    assert loaded.hidden_size == 384
    assert backbone.input_embeddings(loaded).shape == (30_522, 384)
    assert not loaded.model.training


def test_a_path_stays_on_this_machine(tiny_decoder: Path) -> None:
    assert backbone.load(str(tiny_decoder)).name == "tiny-qwen2"
    assert backbone.public_name(f"{tiny_decoder}/") == "tiny-qwen2"
    assert backbone.public_name("google-t5/t5-small") == "google-t5/t5-small"


def test_decoders_and_encoder_decoders_load(tiny_decoder: Path, tiny_encoder_decoder: Path) -> None:
    decoder = backbone.load(str(tiny_decoder))
    both = backbone.load(str(tiny_encoder_decoder))

    assert (decoder.hidden_size, both.hidden_size) == (48, 40)
    # Rows that pad the matrix past the last token belong to no token.
    assert backbone.input_embeddings(decoder).shape == (len(decoder.tokenizer), 48)
    shared = both.model.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_array_equal(backbone.input_embeddings(both), shared)


def test_embeddings_are_a_copy(tiny_decoder: Path) -> None:
    loaded = backbone.load(str(tiny_decoder))
    backbone.input_embeddings(loaded)[:] = 0

    assert bool(loaded.model.get_input_embeddings().weight.any())


def test_the_hash_tells_weights_apart(tiny_decoder: Path, tmp_path: Path) -> None:
    first = backbone.load(str(tiny_decoder))
    assert backbone.load(str(tiny_decoder)).sha256 == first.sha256

    with torch.no_grad():
        first.model.get_input_embeddings().weight[0, 0] += 1
    first.model.save_pretrained(tmp_path)
    first.tokenizer.save_pretrained(tmp_path)

    assert backbone.load(str(tmp_path)).sha256 != first.sha256


def test_an_unknown_name_says_what_would_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("no-such/model", str(tmp_path / "absent"), "not a name!"):
        with pytest.raises(NotFound, match=r"config\.json and model\.safetensors") as caught:
            backbone.load(name)
        assert caught.value.subject == "backbone"


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04.")

    with pytest.raises(InvalidInput, match="no safetensors weights"):
        backbone.load(str(tmp_path))


@pytest.mark.parametrize("damaged", [b"", b"\xff" * 64])
def test_damaged_weights_are_refused_by_name(tmp_path: Path, damaged: bytes) -> None:
    folder = tiny_bert(tmp_path / "bert")
    (folder / "model.safetensors").write_bytes(damaged)
    with pytest.raises(InvalidInput, match=r"'bert' cannot be read"):
        backbone.load(str(folder))


def test_weights_alone_are_not_a_backbone(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")

    with pytest.raises(InvalidInput, match="cannot be read") as caught:
        backbone.load(str(tmp_path))
    assert str(tmp_path) not in caught.value.fix


TEXTS = (TEXT[2], "We weren't  there in 1859!\n\n\tNai\u0308ve \ufb01les cost €4,711.", "")
"""With a letter in two parts, and signs that some families' own code makes others of."""


def _folder(family: str, folder: Path) -> Path:
    made = {
        "bert": tiny_bert,
        "t5": tiny_encoder_decoder,
        "minilm": lambda _: backbone.resolve("default"),
    }
    return made[family](folder) if family in made else decoders.save(folder, family)


@pytest.mark.parametrize("family", [*decoders.FAMILIES, "bert", "t5", "minilm"])
def test_a_text_is_cut_and_put_together_as_the_file_says(family: str, tmp_path: Path) -> None:
    folder = _folder(family, tmp_path / "tiny")
    told = Tokenizer.from_file(str(folder / "tokenizer.json"))
    told.no_truncation()
    told.no_padding()
    found = backbone.load_tokenizer(folder)
    for text in TEXTS:
        for special in (False, True):
            ids = told.encode(text, add_special_tokens=special).ids
            assert found(text, add_special_tokens=special)["input_ids"] == ids
        assert found.decode(ids) == told.decode(ids, skip_special_tokens=False)


def test_its_special_tokens_and_its_template_stay(tmp_path: Path) -> None:
    found = backbone.load_tokenizer(decoders.save(tmp_path / "tiny"))
    assert (found.eos_token, found.pad_token) == ("<|endoftext|>", "<|endoftext|>")
    assert found.chat_template == decoders.CHATML
