"""The public vocabulary: exact, compact, and without names that are no words."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss
from sottovoce.core.privacy.surrogates import words_of
from sottovoce.core.text.vocabulary import Mark, Vocabulary, pack
from tests.support.paths import ROOT

FILE = ROOT / "core" / "sottovoce" / "core" / "text" / "vocabulary.en.bin"


@pytest.fixture(scope="module")
def shipped() -> Vocabulary:
    return Vocabulary.shipped()


def test_it_is_large_and_its_file_small(shipped: Vocabulary) -> None:
    assert len(shipped) >= 290_000
    assert FILE.stat().st_size < 1_400_000


@pytest.mark.parametrize(
    "word", ["the", "timeouts", "nginx", "Kubernetes", "migraine", "json", "café", "dass"]
)
def test_it_lists_words_in_any_case(shipped: Vocabulary, word: str) -> None:
    assert word in shipped
    assert word.upper() in shipped


@pytest.mark.parametrize(
    "word", ["priya", "kowalski", "yilmaz", "anna", "nadia", "boyle", "leeds", "mia"]
)
def test_it_holds_no_name_that_is_no_word(shipped: Vocabulary, word: str) -> None:
    assert word not in shipped


@pytest.mark.parametrize(
    "word",
    ["", "x" * 200, "pa\u200bper", "papеr", "\ud800", "\0", "a b", "timeout\t1", "a\n", "kuberne"],
)
def test_anything_else_is_not_listed(shipped: Vocabulary, word: str) -> None:
    assert word not in shipped


def test_words_that_are_names_are_marked(shipped: Vocabulary) -> None:
    for word in ["will", "rose", "may", "grace", "mark", "fish"]:
        assert shipped.marks(word) & Mark.NAME
        assert shipped.marks(word) & Mark.WORD
    for word in (*words_of("given"), *words_of("family"), *words_of("places")):
        assert not shipped.marks(word) or shipped.marks(word) & Mark.NAME


@pytest.mark.parametrize(
    ("word", "a_name_too"),
    [
        ("teamviewer", False),
        ("monstera", True),
        ("waze", False),
        ("sedona", True),
        ("isaiah", True),
    ],
)
def test_brands_and_kinds_of_things_are_public(
    shipped: Vocabulary, word: str, a_name_too: bool
) -> None:
    assert shipped.marks(word) & Mark.PUBLIC
    assert bool(shipped.marks(word) & Mark.NAME) is a_name_too


def test_every_word_is_found_again(shipped: Vocabulary) -> None:
    for number, (word, marks) in enumerate(shipped.items()):
        if number % 97 == 0:
            assert shipped.marks(word) == marks


@pytest.mark.parametrize("start", ["bil", "zyg", "é", "", "qqqq", "the"])
def test_all_words_with_a_beginning_are_found(shipped: Vocabulary, start: str) -> None:
    found = [(word, marks) for word, marks in shipped.items() if word.startswith(start)]
    assert list(shipped.beginning(start)) == found


def test_a_misspelling_is_a_common_word_with_one_edit(shipped: Vocabulary) -> None:
    for word in ("goverment", "guranteed", "explian", "varibales"):
        assert shipped.misspelt(word)
    for word in ("kowalski", "yilmaz", "zzzzzzzz", "abc", "x" * 99):
        assert not shipped.misspelt(word)


def test_a_packed_vocabulary_opens_again(tmp_path: Path) -> None:
    words = {f"w{number}": 1 + number % 4 for number in range(1_000)} | {"é": 1}
    (tmp_path / "v.bin").write_bytes(pack(words))
    opened = Vocabulary(tmp_path / "v.bin")
    assert dict(opened.items()) == words
    assert all(opened.marks(word) == marks for word, marks in words.items())


@pytest.mark.parametrize("word", ["Anna", "", "a b", "x" * 99, "a\n"])
def test_what_cannot_be_found_again_is_not_packed(word: str) -> None:
    with pytest.raises(ValueError, match="listed"):
        pack({word: 1})


@pytest.mark.parametrize("change", [lambda d: d[:-9], lambda d: b"x" + d, lambda d: d + b"x"])
def test_a_damaged_file_is_refused(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "v.bin").write_bytes(change(FILE.read_bytes()))
    with pytest.raises(ValueError, match=r"vocabulary|cut short"):
        Vocabulary(tmp_path / "v.bin")


def test_a_damaged_block_is_refused(tmp_path: Path) -> None:
    data = bytearray(FILE.read_bytes())
    data[-200:] = b"\xff" * 200
    (tmp_path / "v.bin").write_bytes(data)
    with pytest.raises(DataLoss):
        list(Vocabulary(tmp_path / "v.bin").items())


def test_it_never_holds_more_than_a_megabyte_and_a_half() -> None:
    words = [word for word, _ in Vocabulary.shipped().items()][::101]
    tracemalloc.start()
    try:
        opened = Vocabulary(FILE)
        assert all(map(opened.marks, words))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held + FILE.stat().st_size < 1_500_000
