"""A release reports each word's place and treatment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from sottovoce.core.privacy.policies import IDENTIFIER, PUNCTUATION, Setting, Treatment
from sottovoce.core.privacy.release import Draft, Release, WordRelease
from sottovoce.core.text.words import Word, split

TAGS = ("NOUN", "VERB", "X", IDENTIFIER, PUNCTUATION)
CLITICS = ("n't",)
PASS, NOISE, DRAW = Treatment

Output = tuple[str, int, int]
"""The replacement of a word, the number of its tag, and its treatment."""


def write(draft: Draft, words: Sequence[Word], outputs: Sequence[Output]) -> None:
    tags, treatments = (np.array([each[at] for each in outputs], np.uint8) for at in (1, 2))
    draft.write(words, [text for text, _, _ in outputs], tags, treatments)


def written(document: str, outputs: list[Output]) -> Release:
    """A release with these outputs in place of the document's words, written in two parts."""
    words = list(split(document, CLITICS))
    draft = Draft(document)
    write(draft, words[:2], outputs[:2])
    write(draft, words[2:], outputs[2:])
    return Release(
        text=draft.text(),
        document=document,
        setting=Setting("strong", "pct2t.v1", "all"),
        eta=4.5,
        bundle_id="b" * 64,
        charge=9.0,
        tags=TAGS,
        clitics=CLITICS,
        lengths=draft.lengths,
        marks=draft.marks,
    )


def example() -> Release:
    outputs = [("café", 0, NOISE), ("is", 1, PASS), ("n't", 2, PASS), (".", 4, PASS)]
    return written("\npond  isn't. ", outputs)


def test_gaps_are_copied_and_words_replaced() -> None:
    assert example().text == "\ncafé  isn't. "
    assert written("", []).text == ""
    assert written(" \n", []).text == " \n"


def test_each_word_is_found_in_both_texts() -> None:
    longer = written("pond is", [("mountain", 0, NOISE), ("is", 1, NOISE)])
    assert longer.text == "mountain is"
    assert longer.words == (
        WordRelease(0, 4, 0, 8, "NOUN", NOISE, replaced=True),
        WordRelease(5, 7, 9, 11, "VERB", NOISE, replaced=False),
    )
    shorter = written("pond is", [("a", 3, DRAW), ("as", 1, PASS)])
    assert shorter.words == (
        WordRelease(0, 4, 0, 1, IDENTIFIER, DRAW, replaced=True),
        WordRelease(5, 7, 2, 4, "VERB", PASS, replaced=True),
    )


def test_the_words_are_those_that_the_endings_were_cut_for() -> None:
    outputs = [("the", 2, NOISE), ("are", 1, NOISE), ("n't", 2, PASS), ("here", 2, PASS)]
    release = written("a  isn't here", outputs)
    assert [release.text[w.released_start : w.released_end] for w in release.words] == [
        text for text, _, _ in outputs
    ]
    spans = [(word.start, word.end) for word in release.words]
    assert spans == [(0, 1), (3, 5), (5, 8), (9, 13)]


def test_words_without_outputs_and_outputs_without_words_are_refused() -> None:
    for outputs in ([("a", 0, NOISE)], [("a", 0, NOISE)] * 3):
        with pytest.raises(ValueError, match="zip"):
            write(Draft("pond is"), split("pond is", CLITICS), outputs)


def test_a_report_that_does_not_fit_the_document_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        _ = replace(example(), document="pond").words
    with pytest.raises(ValueError, match="zip"):
        _ = replace(example(), marks=example().marks[:-1]).words


def test_a_word_is_protected_unless_it_passes() -> None:
    outputs: list[Output] = [("a", 0, PASS), ("b", 1, NOISE), ("c", 2, DRAW)]
    told = written("ex why zed", outputs).words
    assert [word.treatment for word in told] == [PASS, NOISE, DRAW]
    assert [word.protected for word in told] == [False, True, True]


def test_a_word_tells_what_it_hides_where_a_persons_data_decided() -> None:
    outputs: list[Output] = [("a", 0, PASS), ("b", 1, DRAW)]
    release = replace(written("ex why", outputs), reasons=bytes([0, 1]), known=("", "name"))
    assert [word.hides for word in release.words] == ["", "name"]
    assert [word.hides for word in written("ex why", outputs).words] == ["", ""]


@pytest.mark.parametrize(
    ("first", "second"), [("pond is", "is pond."), ("\npond\n", " a\n\nb "), ("", "pond")]
)
@pytest.mark.parametrize("word", ["mountains", "a", ""])
def test_a_document_of_two_parts_is_cut_where_they_meet(first: str, second: str, word: str) -> None:
    whole = written(f"{first}\n{second}", [(word, 0, NOISE)] * len(split(f"{first}\n{second}")))
    for part, found in zip((first, second), whole.cut(len(first)), strict=True):
        assert found == written(part, [(word, 0, NOISE)] * len(split(part))).text
