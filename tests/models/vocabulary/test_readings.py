"""Every listed word has one reading: lists first, then counts, then the tagger."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.cloud.models import backbone
from sottovoce.core.errors import DataLoss, NotReady
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.core.text.word_classes import READINGS, UNLISTED
from sottovoce.models.corpus import language
from sottovoce.models.corpus.frequencies import FrequencyTable
from sottovoce.models.vocabulary import readings, vocabulary
from sottovoce.models.vocabulary.vocabulary import Vocabulary

CARRIERS = language.load("en").carriers


def invented(words: dict[str, dict[str, int]], clitics: int = 0) -> Vocabulary:
    counts = np.array([[met.get(tag, 0) for tag in UPOS] for met in words.values()], float)
    clitic = np.arange(len(words)) >= len(words) - clitics
    return Vocabulary(tuple(words), ((),) * len(words), clitic, counts)


def names(found: NDArray[np.uint8]) -> list[str]:
    return [READINGS[each] for each in found.tolist()]


def test_a_word_is_what_it_was_most_often_met_as(tagger: OnnxTagger) -> None:
    words = invented(
        {
            "walk": {"NOUN": 40, "VERB": 60},
            "that": {"PRON": 300, "SCONJ": 200, "DET": 150},  # together: grammar
            "inside": {"ADP": 30, "ADV": 20, "PRON": 5},
            "ai": {"NOUN": 4, "AUX": 19},  # too few for a closed class
            "em": {"PRON": 5},
            "hm": {"INTJ": 3, "X": 3, "NOUN": 5},
            "anna": {"PROPN": 9, "NOUN": 3},
            "six": {"NUM": 9, "NOUN": 3},
            "'s": {"PART": 900},
        },
        clitics=1,
    )
    found = names(readings.readings(words, tagger, CARRIERS, {}))
    wanted = "VERB GRAMMAR REFERENCE NOUN REFERENCE OTHER NAME NUMBER CLITIC"
    assert found == wanted.split()


def test_lists_come_before_counts_and_the_tagger_last(tagger: OnnxTagger) -> None:
    words = invented(
        {
            "German": {"ADJ": 50},
            "german": {"ADJ": 50},
            "broke": {"VERB": 50},
            "half": {"NOUN": 50},
            "quickliness": {},
            "'d": {"AUX": 5},
        },
        clitics=1,
    )
    facts = {"german": "nationality", "broke": "money", "half": "number", "'d": "crime"}
    found = names(readings.readings(words, tagger, CARRIERS, facts))
    assert found == ["ORIGIN", "ORIGIN", "FACT", "NUMBER", "NOUN", "CLITIC"]


def test_words_nobody_met_stay_out_of_closed_classes(
    table: FrequencyTable, tagger: OnnxTagger
) -> None:
    words = vocabulary.make(backbone.load().tokenizer, table)
    unseen = ~words.counts.any(axis=1) & ~words.clitic
    found = readings.readings(words, tagger, CARRIERS, {})
    assert unseen.sum() > 100
    closed = [READINGS.index(each) for each in ("REFERENCE", "GRAMMAR", "CLITIC")]
    assert not np.isin(found[unseen], closed).any()
    assert (found[words.clitic] == READINGS.index("CLITIC")).all()


def test_a_class_under_a_hundred_words_has_none() -> None:
    found = np.array([READINGS.index("NOUN")] * 100 + [READINGS.index("FACT")] * 99, np.uint8)
    classes = readings.partition(found, np.zeros(199, np.bool_))
    assert {name: len(ids) for name, ids in classes.items()} == {"=NOUN": 100}
    together = np.array(
        [READINGS.index("GRAMMAR")] * 60 + [READINGS.index("REFERENCE")] * 50, np.uint8
    )
    attached = np.arange(110) >= 105
    assert readings.partition(together, attached)["=CLOSED"].tolist() == list(range(105))


def test_the_shipped_list_names_enough_of_each(shipped_models: Path) -> None:
    facts = readings.load_facts(shipped_models / "facts")
    found = [readings.KINDS[kind] for kind in facts.values()]
    for reading in ("ORIGIN", "FACT", "NUMBER"):
        assert found.count(reading) >= 100
    assert all(word == word.lower() for word in facts)


def test_shares_are_of_all_words_of_running_text(table: FrequencyTable) -> None:
    words = invented(
        {"walk": {"NOUN": 40, "VERB": 60}, "the": {"DET": 300}, "'s": {"PART": 100}}, 1
    )
    found = np.array([READINGS.index(each) for each in ("VERB", "GRAMMAR", "CLITIC")], np.uint8)
    shares = readings.shares(words, found, table)
    total = table.counts.sum() + sum(table.left_out.values())
    assert shares["VERB"] == pytest.approx(100 / total)
    assert shares["GRAMMAR"] == pytest.approx(300 / total)
    assert shares["NOUN"] == 0
    assert shares[UNLISTED] == pytest.approx(1 - 500 / total)
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no list"),
        ("kind\tword\n", "no list"),
        ("word\tkind\nbroke\n", "no list"),
        ("word\tkind\nbroke\tmoney\textra\n", "no list"),
        ("word\tkind\nbroke\tmood\n", "mood"),
    ],
)
def test_a_list_that_is_none_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "words.tsv").write_text(text)
    with pytest.raises(DataLoss, match=said):
        readings.load_facts(tmp_path)


def test_no_list_at_all_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="--models"):
        readings.load_facts(tmp_path)
