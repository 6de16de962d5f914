"""Changed sentences keep a tag for every word, and the changes really occur."""

import numpy as np
import pytest

from sottovoce.models.corpus.augment import cut, passages
from sottovoce.models.corpus.treebanks import TAG_ID, Sentence

NOUN, PROPN, PUNCT, NUM = (1 << TAG_ID[tag] for tag in ("NOUN", "PROPN", "PUNCT", "NUM"))
MESSAGE = Sentence(
    ("Mr.", "Bo", "met", "42", "Gore-", "."), (PROPN, NOUN, 1, NUM, PROPN, PUNCT), ""
)


def test_cuts_words_as_the_device_does() -> None:
    assert cut("Mr.", PROPN) == [("Mr", PROPN), (".", PUNCT)]
    assert cut("plain", NOUN) == [("plain", NOUN)]
    assert cut(":-)", PUNCT) == [(":-)", PUNCT)]


def test_every_sentence_comes_once_in_order_and_documents_stay_apart() -> None:
    letters = [chr(ord("a") + i) for i in range(20)]
    sentences = [Sentence((c,), (NOUN,), f"d{i // 5}") for i, c in enumerate(letters)]
    found = list(passages(sentences, np.random.default_rng(1)))
    assert [word.lower() for passage in found for word in passage.words] == letters
    assert all(len(passage.words) <= 5 for passage in found)
    assert len({len(passage.words) for passage in found}) > 2


@pytest.fixture(scope="module")
def changed() -> list[Sentence]:
    random = np.random.default_rng(2)
    return [next(passages([MESSAGE], random)) for _ in range(500)]


def test_words_and_tags_stay_together(changed: list[Sentence]) -> None:
    for sentence in changed:
        assert len(sentence.words) == len(sentence.allowed)
        meaning = dict(zip((w.lower() for w in sentence.words), sentence.allowed, strict=True))
        assert meaning["bo"] == NOUN
        assert meaning.get(".", PUNCT) == PUNCT


def test_each_change_occurs_and_none_always(changed: list[Sentence]) -> None:
    changes = {
        "cut": lambda words: "Mr." not in words and "mr." not in words and "MR." not in words,
        "small": lambda words: "bo" in words,
        "large": lambda words: "BO" in words,
        "no full stop": lambda words: words[-1] != ".",
        "other number": lambda words: "42" not in words,
    }
    for name, occurred in changes.items():
        count = sum(map(occurred, (sentence.words for sentence in changed)))
        assert 0 < count < len(changed), name
