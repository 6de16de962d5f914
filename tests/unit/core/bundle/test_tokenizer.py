"""Token ids are the same as the library's, and the vocabulary stays in the file."""

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
from sottovoce.core.errors import BundleMismatch, DataLoss

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


def test_other_tokenizers_stay_with_the_library(tmp_path: Path) -> None:
    other = tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    file = saved(tmp_path, other)
    assert not (tmp_path / VOCABULARY).exists()
    assert open_tokenizer(file).ids("abb") == [2, 1]


def test_numbers_with_gaps_stay_with_the_library(tmp_path: Path) -> None:
    gaps = tokenizers.Tokenizer(models.WordPiece({"[UNK]": 0, "a": 2}, unk_token=TOKENS[1]))
    file = saved(tmp_path, gaps)
    assert open_tokenizer(file).ids("a") == [2]


_PANICS = '{"version": "1.0", "normalizer": {"type": "Precompiled", "precompiled_charsmap": 3}}'


@pytest.mark.parametrize("damage", ["", "{}", '{"model": 3}', _PANICS])
def test_damage_is_told(tmp_path: Path, damage: str) -> None:
    file = saved(tmp_path, library())
    file.write_text(damage)
    with pytest.raises(DataLoss, match=r"tokenizer\.json"):
        open_tokenizer(file)


def _bpe() -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1, "ab": 2, "▁": 3}, [("a", "b")]))


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.BertNormalizer(),
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.Strip()]),
    ],
)
@pytest.mark.parametrize(
    "cutter",
    [
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.Metaspace()]),
        pre_tokenizers.Split(" ", "merged_with_previous"),
    ],
)
def test_standard_parts_do_as_the_library_does(
    tmp_path: Path,
    normalizer: normalizers.Normalizer,
    cutter: pre_tokenizers.PreTokenizer,
) -> None:
    whole = _bpe()
    whole.normalizer, whole.pre_tokenizer = normalizer, cutter
    whole.add_special_tokens(["<s>", "[PAD]", "<|end|>"])
    ours = open_tokenizer(saved(tmp_path, whole))
    assert ours.ids("ab b a") == whole.encode("ab b a", add_special_tokens=False).ids
    assert ours.normalize("ab b") == normalizer.normalize_str("ab b")


@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.Replace("elena", "bottle"),
        normalizers.Replace(tokenizers.Regex("elen."), "bottle"),
        normalizers.Replace(" ", "x"),
        normalizers.Prepend("bot"),
        normalizers.Sequence([normalizers.NFC(), normalizers.Replace("elena", "")]),
    ],
)
def test_a_normalizer_that_rewrites_words_is_refused(
    tmp_path: Path, normalizer: normalizers.Normalizer
) -> None:
    for whole in (library(), _bpe()):
        whole.normalizer = normalizer
        with pytest.raises(BundleMismatch, match="rewrites words"):
            open_tokenizer(saved(tmp_path, whole))
        (tmp_path / VOCABULARY).unlink(missing_ok=True)


@pytest.mark.parametrize(
    "cutter",
    [
        pre_tokenizers.Split("elena", "removed"),
        pre_tokenizers.Split(tokenizers.Regex("(a+)+b"), "isolated"),
        pre_tokenizers.CharDelimiterSplit("e"),
        pre_tokenizers.Metaspace(replacement="e"),
    ],
)
def test_a_pre_tokenizer_of_its_own_making_is_refused(
    tmp_path: Path, cutter: pre_tokenizers.PreTokenizer
) -> None:
    whole = _bpe()
    whole.pre_tokenizer = cutter
    with pytest.raises(BundleMismatch, match="cuts words"):
        open_tokenizer(saved(tmp_path, whole))


@pytest.mark.parametrize("content", ["elena", " elena", "▁Elena", "é"])
def test_an_added_token_that_is_a_word_is_refused(tmp_path: Path, content: str) -> None:
    whole = _bpe()
    whole.add_tokens([tokenizers.AddedToken(content, normalized=False)])
    with pytest.raises(BundleMismatch, match="is a word"):
        open_tokenizer(saved(tmp_path, whole))


def test_a_precompiled_table_gives_way_to_nfkc(tmp_path: Path) -> None:
    """Its rules are bytes that the device does not read."""
    whole = _bpe()
    file = saved(tmp_path, whole)
    told = json.loads(file.read_text())
    told["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="}
    file.write_text(json.dumps(told))
    assert open_tokenizer(file).normalize("ﬁa") == "fia"
