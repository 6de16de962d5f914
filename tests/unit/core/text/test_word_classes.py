"""A reading depends on the word alone, and a look adds nothing that a release does not show."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.text.word_classes import (
    FIRST_WORD,
    IDENTIFIER,
    LOOKS,
    MARKS,
    READINGS,
    UNLISTED,
    look_up,
    looks,
)
from sottovoce.core.text.words import Kind, Word, split


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


NOUN, VERB = READINGS.index("NOUN"), READINGS.index("VERB")
NONE = len(READINGS)


def word(text: str, kind: Kind = Kind.WORD) -> Word:
    return Word(text, 0, len(text), kind)


def look(text: str, reading: int = NOUN, kind: Kind = Kind.WORD) -> int:
    return int(looks([word(text, kind)], np.array([reading], np.uint8))[0])


def test_words_of_one_reading_and_case_look_alike() -> None:
    assert look("harbour") == look("sister") == look("iPhone") != look("Harbour")
    assert look("Harbour") == look("Sister") != look("SISTER")


def test_a_look_tells_readings_cases_and_unlisted_words_apart() -> None:
    found = {look(text, r) for text in ("a", "A", "AB") for r in (*range(len(READINGS)), NONE)}
    assert len(found) == 3 * (len(READINGS) + 1)
    assert min(found) == FIRST_WORD
    assert max(found) == LOOKS - 1 < 256
    assert UNLISTED not in READINGS


def test_marks_look_like_themselves_whatever_the_reading_says() -> None:
    found = [look(mark, kind=Kind.PUNCTUATION) for mark in MARKS]
    assert len(set(found)) == len(MARKS)
    assert min(found) >= 1
    assert max(found) < FIRST_WORD
    assert look(".", VERB, Kind.PUNCTUATION) == look(".", NONE, Kind.PUNCTUATION)
    assert look("—", kind=Kind.PUNCTUATION) == look("-", kind=Kind.PUNCTUATION)
    assert look("”", kind=Kind.PUNCTUATION) == look('"', kind=Kind.PUNCTUATION)
    assert look("!!!", kind=Kind.PUNCTUATION) == look("!", kind=Kind.PUNCTUATION)


def test_identifiers_look_like_one_another_and_like_nothing_else() -> None:
    numbers = {look(text, kind=Kind.IDENTIFIER) for text in ("4711", "anna@example.org", "x_1")}
    assert numbers == {IDENTIFIER}
    assert IDENTIFIER not in [look(mark, kind=Kind.PUNCTUATION) for mark in (*MARKS, "§")]


@given(st.text(max_size=60))
def test_every_word_of_any_text_has_one(text: str) -> None:
    words = split(text, ["'s"])
    found = looks(words, np.full(len(words), NONE, np.uint8))
    assert found.dtype == np.uint8
    assert found.shape == (len(words),)
    assert ((found >= 1) & (found < LOOKS)).all()
    for before, after in pairwise(zip(words, found, strict=True)):
        assert (before[0].kind is after[0].kind is Kind.IDENTIFIER) <= (before[1] == after[1])
