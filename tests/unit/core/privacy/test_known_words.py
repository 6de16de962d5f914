"""A document's words are looked up once each, and are the same whatever was known before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy import decisions
from sottovoce.core.privacy.decisions import KnownWords
from sottovoce.core.privacy.noise import Key
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.privatizer import Privatizer
from sottovoce.core.privacy.vectors import Vectors
from sottovoce.core.text.words import Word, split

TEXT = "The pond's cold; THE Pond is it's own, and 12 zyx the naïve 's => pond. "


class Asked:
    """A finder that notes the words it is asked about, and knows them by their length."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.ids: list[int] = []

    def __call__(self, words: Sequence[str], ids: NDArray[np.int32]) -> NDArray[np.float32]:
        self.words += words
        self.ids += ids.tolist()
        return np.array([[len(word)] for word in words], np.float32)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def known(small_bundle: Bundle, asked: Asked) -> KnownWords:
    return KnownWords(Vectors(small_bundle), small_bundle.readings, asked)


def cut(bundle: Bundle, text: str) -> list[Word]:
    return split(text, bundle.manifest.clitics)


def told(known: KnownWords, words: list[Word]) -> list[tuple[object, ...]]:
    """All that is known of each word, in order."""
    which = known.numbers(words)
    forms = [known.forms[number] for number in which.tolist()]
    return [*zip(forms, known.facts[which].tolist(), known.alone[which].tolist(), strict=True)]


def test_each_word_is_looked_up_once(small_bundle: Bundle, known: KnownWords, asked: Asked) -> None:
    words = cut(small_bundle, TEXT * 3)
    for start in range(0, len(words), 7):
        known.numbers(words[start : start + 7])
    different = {(word.text, word.kind, word.clitic) for word in words}
    assert len(known.forms) == len(asked.words) == len(different)
    assert known.facts.shape == (len(different),)
    assert known.alone.shape == (len(different), 1)


def test_the_finder_is_told_what_is_listed_but_for_its_case(
    small_bundle: Bundle, known: KnownWords, asked: Asked
) -> None:
    known.numbers(cut(small_bundle, "POND Pond pond p\u00f3nd zyx 12 ,"))
    pond = small_bundle.word_ids["pond"]
    assert asked.words == ["POND", "Pond", "pond", "p\u00f3nd", "zyx", "", ""]
    assert asked.ids[:5] == [pond, pond, pond, -1, -1]


def test_what_is_known_of_a_word_is_its_own(small_bundle: Bundle, known: KnownWords) -> None:
    words = cut(small_bundle, TEXT)
    together = told(known, words)
    for word, expected in zip(words, together, strict=True):
        alone = KnownWords(Vectors(small_bundle), small_bundle.readings, Asked())
        assert told(alone, [word]) == [expected], word.text


def test_a_long_document_is_forgotten_on_the_way(
    small_bundle: Bundle, known: KnownWords, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = cut(small_bundle, " ".join(f"zyx{'abcdefghij'[n % 10] * (n + 1)}" for n in range(60)))
    monkeypatch.setattr(decisions, "MOST", 10)
    for start in range(0, 60, 5):
        known.numbers(words[start : start + 5])
        assert len(known.forms) == len(known.facts) == len(known.alone) <= 15


def test_what_was_forgotten_leaves_no_trace(
    small_privatizer: Privatizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def released() -> object:
        return small_privatizer.release(TEXT * 5, Setting("strong"), key=Key(bytes(32)))

    whole = released()
    monkeypatch.setattr(decisions, "WINDOW", 4)
    for most in (0, 1, 9, 1_000):
        monkeypatch.setattr(decisions, "MOST", most)
        assert released() == whole
