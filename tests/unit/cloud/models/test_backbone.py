"""Backbones of every family load by name or path, and are known by their weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from sottovoce.cloud.models import backbone
from sottovoce.core.bundle.backbone import BackboneFiles, public_name, resolve
from sottovoce.core.errors import InvalidInput, NotFound
from tests.support import decoders
from tests.support.backbones import (
    ENCODERS,
    TEXT,
    tiny_bert,
    tiny_encoder,
    tiny_encoder_decoder,
)


def test_the_default_needs_no_download() -> None:
    loaded = backbone.load()

    assert loaded.name == "all-MiniLM-L6-v2"
    assert loaded.hidden_size == 384
    assert backbone.input_embeddings(loaded).shape == (30_522, 384)
    assert not loaded.model.training


def test_a_path_stays_on_this_machine(tiny_decoder: Path) -> None:
    assert backbone.load(str(tiny_decoder)).name == "tiny-qwen2"
    assert public_name(f"{tiny_decoder}/") == "tiny-qwen2"
    assert public_name("google-t5/t5-small") == "google-t5/t5-small"


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


def test_weights_that_torch_would_draw_at_random_are_missed(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "bert")
    sound = load_file(folder / "model.safetensors")
    for gone, refused in (("pooler", False), ("layer.1", True), ("word_embeddings", True)):
        kept = {name: value for name, value in sound.items() if gone not in name}
        save_file(kept, folder / "model.safetensors", {"format": "pt"})
        if refused:
            with pytest.raises(InvalidInput, match=f"lacks .* of its weights.*{gone}"):
                backbone.load(str(folder))
        else:
            backbone.load(str(folder))


# The pinned transformers does not find a Gemma 3's weights in its own file.
FAMILIES = [family for family in decoders.FAMILIES if family != "gemma3"]


@pytest.mark.parametrize("family", [*FAMILIES, *ENCODERS, "bert", "t5", "minilm"])
def test_its_files_tell_what_torch_loads(family: str, tmp_path: Path) -> None:
    folder = _folder(family, tmp_path / "tiny")
    files, loaded = BackboneFiles.open(str(folder)), backbone.load(str(folder))
    assert (files.name, files.sha256) == (loaded.name, loaded.sha256)
    assert files.hidden_size == loaded.hidden_size
    np.testing.assert_array_equal(files.input_embeddings(), backbone.input_embeddings(loaded))
    assert _parts(files.tokenizer) == _parts(loaded.tokenizer.backend_tokenizer)
    for text in TEXTS:
        ids = loaded.tokenizer(text)["input_ids"]
        assert files.tokenizer.encode(text).ids == ids


def _parts(tokenizer: Tokenizer) -> list[bytes | None]:
    return [part and part.__getstate__() for part in (tokenizer.model, tokenizer.normalizer)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_read_as_it_is(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = tiny_bert(tmp_path / "bert")
    halves = {name: t.to(dtype) for name, t in load_file(folder / "model.safetensors").items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})
    loaded = backbone.input_embeddings(backbone.load(str(folder)))
    np.testing.assert_array_equal(BackboneFiles.open(str(folder)).input_embeddings(), loaded)


def test_a_backbone_of_files_that_do_not_say_enough_is_refused(tmp_path: Path) -> None:
    folder = tiny_bert(tmp_path / "bert")
    weights = load_file(folder / "model.safetensors")
    cases = {
        "model.safetensors": (b"", b"\xff" * 64),
        "config.json": (None, b"", b"[]", b"\xff", b"{}"),
        "tokenizer.json": (None, b"", b"{}"),
    }
    for name, damaged in cases.items():
        sound = (folder / name).read_bytes()
        for data in damaged:
            if data is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(data)
            with pytest.raises(InvalidInput, match=r"'bert' cannot be read: .+") as caught:
                BackboneFiles.open(str(folder)).input_embeddings()
            assert str(tmp_path) not in f"{caught.value.problem}{caught.value.fix}"
        (folder / name).write_bytes(sound)
    save_file(
        {f"odd.{name}": t for name, t in weights.items() if "norm" in name.lower()},
        folder / "model.safetensors",
    )
    with pytest.raises(InvalidInput, match="no table of token embeddings"):
        BackboneFiles.open(str(folder)).input_embeddings()


TEXTS = (TEXT[2], "We weren't  there in 1859!\n\n\tNai\u0308ve \ufb01les cost €4,711.", "")
"""With a letter in two parts, and signs that some families' own code makes others of."""


def _folder(family: str, folder: Path) -> Path:
    if family in ENCODERS:
        return tiny_encoder(family, folder)
    made = {
        "bert": tiny_bert,
        "t5": tiny_encoder_decoder,
        "minilm": lambda _: resolve("default"),
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
