from __future__ import annotations

import gc
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.tokenizer import VOCABULARY
from sottovoce.core.errors import DataLoss
from sottovoce.core.privacy.vectors import Vectors


def test_a_listed_word_has_its_row(small_bundle: Bundle) -> None:
    rows, ids = Vectors(small_bundle).lookup(["pond", "NAÏVE", "n’t", "Anna"])
    assert [small_bundle.words[i] for i in ids] == ["pond", "naive", "n't", "anna"]
    assert np.array_equal(rows, small_bundle.space[ids])


def test_any_other_word_has_the_mean_of_its_tokens(small_bundle: Bundle) -> None:
    rows, ids = Vectors(small_bundle).lookup(["pond", "qzxvbk"])
    assert ids.tolist()[1] == -1
    vocabulary = (small_bundle.folder / VOCABULARY).read_text().splitlines()
    pieces = ["q", "##z", "##x", "##v", "##b", "##k"]
    mean = small_bundle.tokens[[vocabulary.index(piece) for piece in pieces]].mean(axis=0)
    assert np.allclose(rows[1], mean / np.linalg.norm(mean), atol=1e-6)


def test_neighbours_do_not_change_a_vector(small_bundle: Bundle) -> None:
    # Padding or truncation saved with the tokenizer would.
    vectors = Vectors(small_bundle)
    alone, _ = vectors.lookup(["zq"])
    together, _ = vectors.lookup(["zq", "qzxvbkqzxvbkqzxvbk"])
    assert np.array_equal(alone[0], together[0])


@pytest.mark.parametrize("word", ["\u200b", "\ud800", "\x01"])
def test_a_form_without_tokens_has_a_fixed_direction(small_bundle: Bundle, word: str) -> None:
    rows, ids = Vectors(small_bundle).lookup([word])
    assert ids.tolist() == [-1]
    assert rows[0].tolist() == [1.0] + [0.0] * (small_bundle.manifest.dimensions - 1)


@given(words=st.lists(st.text(min_size=1), max_size=8))
def test_every_row_has_length_one(small_bundle: Bundle, words: list[str]) -> None:
    rows, ids = Vectors(small_bundle).lookup(words)
    assert rows.shape == (len(words), small_bundle.manifest.dimensions)
    assert rows.dtype == np.float32
    assert len(ids) == len(words)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


@given(st.text(alphabet=st.characters(max_codepoint=0x2FF), min_size=1, max_size=12))
def test_the_short_cut_for_ascii_agrees_with_the_tokenizer(small_bundle: Bundle, word: str) -> None:
    tokenizer = Tokenizer.from_file(str(small_bundle.tokenizer_file))
    form = tokenizer.normalizer.normalize_str(word).strip()
    if word.isascii() and not word.isprintable():
        return  # white space and controls never reach the short cut
    assert Vectors(small_bundle).normal_form(word).strip() == form


def test_a_tokenizer_that_keeps_case_is_respected(
    small_bundle_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(small_bundle_folder, folder)
    letters = {chr(code): code - 33 for code in range(33, 127)}
    Tokenizer(models.BPE(letters, [])).save(str(folder / "tokenizer.json"))
    cased = Bundle(folder, Bundle.open(small_bundle_folder).manifest, "0")
    vectors = Vectors(cased)
    assert vectors.normal_form("Pond") == "Pond"
    assert vectors.lookup(["Pond", "pond"])[1].tolist()[0] == -1


def test_nothing_is_kept_of_words_once_the_call_returns(small_bundle: Bundle) -> None:
    vectors = Vectors(small_bundle)
    vectors.lookup(["qzx"])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(4):  # over 250 kB if forms were remembered, even without vectors
        vectors.lookup([f"q{number}z{other}" * 4 for other in range(500)])
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 100_000


def test_a_broken_tokenizer_is_data_loss(small_bundle_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(small_bundle_folder, folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(DataLoss, match=r"tokenizer\.json"):
        Vectors(Bundle(folder, Bundle.open(small_bundle_folder).manifest, "0"))
