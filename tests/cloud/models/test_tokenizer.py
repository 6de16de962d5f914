"""A model's tokenizer cuts as its tokenizer.json says, of every family, with its special tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from sottovoce.cloud.models import backbone
from tests.support import decoders
from tests.support.backbones import TEXT, tiny_bert, tiny_encoder_decoder

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
