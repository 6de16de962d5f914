"""A reading is looked up, whatever stands around the word."""

import numpy as np

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.text.word_classes import READINGS, UNLISTED, look_up


def test_words_are_read_and_what_is_not_listed_says_so() -> None:
    readings = np.array([3, 0, 11], np.uint8)
    found = look_up(readings, np.array([2, -1, 0, 0, 1], np.int32))

    assert found.dtype == np.uint8
    names = [(*READINGS, UNLISTED)[each] for each in found.tolist()]
    assert names == ["CLITIC", "UNLISTED", "ADV", "ADV", "NOUN"]
    assert readings.tolist() == [3, 0, 11]
    assert len(look_up(readings, np.zeros(0, np.int32))) == 0


def test_the_built_bundle_reads_words_as_people_do(bundle: Bundle) -> None:
    wanted = {
        "NOUN": "house time mother letter",
        "VERB": "said walked bring",
        "ADJ": "small beautiful red",
        "ADV": "quickly often very",
        "REFERENCE": "he them of between",
        "GRAMMAR": "the and would is",
        "OTHER": "yes please $",
        "NAME": "anna london peter january google",
        "NUMBER": "five thousand second half twice",
        "ORIGIN": "german muslim ukrainian hispanic",
        "FACT": "pregnant bipolar gay bankrupt guilty jailed",
        "CLITIC": "n't 's",
    }
    for name, words in wanted.items():
        ids = np.array([bundle.word_ids[word] for word in words.split()], np.int32)
        found = [READINGS[each] for each in look_up(bundle.readings, ids)]
        assert found == [name] * len(ids), dict(zip(words.split(), found, strict=True))
