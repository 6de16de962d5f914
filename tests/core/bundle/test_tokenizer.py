"""Token ids are those of the library, whose vocabulary is left in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, normalizers, pre_tokenizers

from sottovoce.core.bundle.tokenizer import (
    VOCABULARY,
    Tokenizer,
    open_tokenizer,
    without_vocabulary,
)
from sottovoce.core.errors import DataLoss

LETTERS = "abcdefghij"
TOKENS = ["[PAD]", "[UNK]", *LETTERS, *(f"##{c}" for c in LETTERS if c != "j"), "##é", "!", "é"]
TOKENS += ["ab", "##bc", "abc", "head", "##ache", "##ches", "人"]


def library() -> tokenizers.Tokenizer:
    vocabulary = {token: place for place, token in enumerate(TOKENS)}
    model = models.WordPiece(vocabulary, unk_token=TOKENS[1], max_input_chars_per_word=12)
    found = tokenizers.Tokenizer(model)
    found.normalizer = normalizers.BertNormalizer(strip_accents=False)
    found.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return found


def saved(folder: Path, tokenizer: tokenizers.Tokenizer) -> Path:
    whole, tokens = without_vocabulary(tokenizer.to_str())
    file = folder / "tokenizer.json"
    file.write_text(whole, encoding="utf-8")
    if tokens is not None:
        (folder / VOCABULARY).write_text("".join(f"{t}\n" for t in tokens), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return open_tokenizer(saved(tmp_path_factory.mktemp("pieces"), library()))


@settings(max_examples=300)
@given(text=st.text() | st.text(LETTERS + " !éÉA人") | st.just("headaches abj" + "a" * 13))
def test_ids_are_the_librarys(ours: Tokenizer, text: str) -> None:
    whole = library()
    text = text.encode("utf-8", "replace").decode()
    assert ours.ids(text) == whole.encode(text, add_special_tokens=False).ids
    assert ours.normalize(text) == whole.normalizer.normalize_str(text)


def test_the_vocabulary_is_not_kept_twice(tmp_path: Path) -> None:
    file = saved(tmp_path, library())
    assert json.loads(file.read_text())["model"]["vocab"] == {"[UNK]": 1}
    assert (tmp_path / VOCABULARY).read_text().split() == TOKENS


def test_other_tokenizers_stay_with_the_library(tmp_path: Path) -> None:
    other = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    file = saved(tmp_path, other)
    assert not (tmp_path / VOCABULARY).exists()
    assert open_tokenizer(file).ids("abb") == [2, 1]


def test_numbers_with_gaps_stay_with_the_library(tmp_path: Path) -> None:
    gaps = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 2}, unk_token=TOKENS[1]))
    file = saved(tmp_path, gaps)
    assert open_tokenizer(file).ids("a") == [2]


@pytest.mark.parametrize("damage", ["", "{}", '{"model": 3}'])
def test_damage_is_told(tmp_path: Path, damage: str) -> None:
    file = saved(tmp_path, library())
    file.write_text(damage)
    with pytest.raises(DataLoss, match=r"tokenizer\.json"):
        open_tokenizer(file)
