"""Words stand in the classes people use them in."""

import numpy as np
import pytest
from numpy.typing import NDArray

from sottovoce.cloud.models import backbone
from sottovoce.core.text.tagger import UPOS, OnnxTagger
from sottovoce.models.corpus import language
from sottovoce.models.corpus.frequencies import FrequencyTable
from sottovoce.models.vocabulary import classes, vocabulary
from sottovoce.models.vocabulary.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def words(table: FrequencyTable) -> Vocabulary:
    return vocabulary.make(backbone.load().tokenizer, table)


@pytest.fixture(scope="module")
def found(words: Vocabulary, tagger: OnnxTagger) -> dict[str, NDArray[np.int32]]:
    return classes.classes(words, tagger, language.load("en").carriers)


def _listed(words: Vocabulary, ids: NDArray[np.int32]) -> set[str]:
    return {words.words[word] for word in ids}


def test_closed_classes_are_closed(words: Vocabulary, found: dict[str, NDArray[np.int32]]) -> None:
    assert {"the", "a", "this", "every"} <= _listed(words, found["DET"])
    assert {"i", "she", "them", "himself"} <= _listed(words, found["PRON"])
    assert {"of", "in", "between"} <= _listed(words, found["ADP"])
    assert {"is", "would", "must"} <= _listed(words, found["AUX"])
    assert len(found["DET"]) < 40
    for tag in ("PRON", "ADP", "AUX", "SCONJ"):
        assert len(found[tag]) < 120


def test_words_of_two_kinds_stand_in_both(
    words: Vocabulary, found: dict[str, NDArray[np.int32]]
) -> None:
    for word, tags in {"walk": "NOUN VERB", "march": "NOUN PROPN", "that": "PRON SCONJ"}.items():
        for tag in tags.split():
            assert word in _listed(words, found[tag])
    assert "walk" not in _listed(words, found["ADP"])


def test_every_word_is_in_a_class_and_clitics_apart(
    words: Vocabulary, found: dict[str, NDArray[np.int32]]
) -> None:
    everything = np.concatenate([found["*"], found["*+clitic"]])
    assert np.sort(everything).tolist() == list(range(len(words.words)))
    assert "PUNCT" not in found
    for name, ids in found.items():
        assert (words.clitic[ids] == name.endswith("+clitic")).all()
        assert (np.diff(ids) > 0).all()
        assert len(ids) >= 4
    by_tag = np.unique(np.concatenate([ids for name, ids in found.items() if "*" not in name]))
    assert len(by_tag) > 0.99 * len(words.words)


def test_words_nobody_met_are_tagged_and_stay_out_of_closed_classes(
    words: Vocabulary, found: dict[str, NDArray[np.int32]]
) -> None:
    unseen = np.flatnonzero(~words.counts.any(axis=1) & ~words.clitic)
    assert len(unseen) > 100
    for tag in ("ADP", "AUX", "DET", "PRON", "PART", "CCONJ", "SCONJ"):
        assert not np.isin(unseen, found[tag]).any()
    tagged = np.concatenate([found[tag] for tag in classes.CLASS_TAGS if tag in found])
    assert np.isin(unseen, tagged).mean() > 0.99


def test_slips_of_the_tagger_do_not_count() -> None:
    counts = np.zeros((8, len(UPOS)))
    columns = [UPOS.index(tag) for tag in ("NOUN", "VERB", "PRON")]
    counts[0, columns] = 100, 4, 0  # 4 %: not a verb
    counts[1, columns] = 100, 6, 0  # 6 %: a verb
    counts[2, columns] = 100, 1, 19  # too few for a pronoun
    counts[3, columns] = 100, 1, 25
    counts[4, columns] = 0, 1, 0  # met once: still what it was met as
    counts[5, columns] = 3, 1, 0  # once of four times
    counts[6, columns] = 1, 0, 19  # a name that was taken for a pronoun
    counts[7, columns] = 0, 0, 5  # a rare pronoun
    tagged = classes.from_counts(counts)

    assert tagged[:, columns].tolist() == [
        [True, False, False],
        [True, True, False],
        [True, False, False],
        [True, False, True],
        [False, True, False],
        [True, False, False],
        [True, False, False],
        [False, False, True],
    ]
