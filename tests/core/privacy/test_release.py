"""What the owner is told of a release: where each word stands, what became of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sottovoce.core.privacy.release import IDENTIFIER, PUNCTUATION, Draft, Release, WordRelease
from sottovoce.core.privacy.setting import Setting
from sottovoce.core.text.words import split

TAGS = ("NOUN", "VERB", "X", IDENTIFIER, PUNCTUATION)
CLITICS = ("n't",)


def written(document: str, outputs: list[tuple[str, int, bool]]) -> Release:
    """A release with these outputs in place of the document's words, written in two parts."""
    words = list(split(document, CLITICS))
    draft = Draft(document)
    draft.write(words[:2], outputs[:2])
    draft.write(words[2:], outputs[2:])
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
    outputs = [("café", 0, True), ("is", 1, False), ("n't", 2, False), (".", 4, False)]
    return written("\nlake  isn't. ", outputs)


def test_gaps_are_copied_and_words_replaced() -> None:
    assert example().text == "\ncafé  isn't. "
    assert written("", []).text == ""
    assert written(" \n", []).text == " \n"


def test_each_word_is_found_in_both_texts() -> None:
    longer = written("lake is", [("mountain", 0, True), ("is", 1, True)])
    assert longer.text == "mountain is"
    assert longer.words == (
        WordRelease(0, 4, 0, 8, "NOUN", protected=True, replaced=True),
        WordRelease(5, 7, 9, 11, "VERB", protected=True, replaced=False),
    )
    shorter = written("lake is", [("a", 3, True), ("as", 1, False)])
    assert shorter.words == (
        WordRelease(0, 4, 0, 1, IDENTIFIER, protected=True, replaced=True),
        WordRelease(5, 7, 2, 4, "VERB", protected=False, replaced=True),
    )


def test_the_words_are_those_that_the_endings_were_cut_for() -> None:
    outputs = [("the", 2, True), ("are", 1, True), ("n't", 2, False), ("here", 2, False)]
    release = written("a  isn't here", outputs)
    assert [release.text[w.released_start : w.released_end] for w in release.words] == [
        text for text, _, _ in outputs
    ]
    spans = [(word.start, word.end) for word in release.words]
    assert spans == [(0, 1), (3, 5), (5, 8), (9, 13)]


def test_words_without_outputs_and_outputs_without_words_are_refused() -> None:
    for outputs in ([("a", 0, True)], [("a", 0, True)] * 3):
        with pytest.raises(ValueError, match="zip"):
            Draft("lake is").write(split("lake is", CLITICS), outputs)


def test_a_report_that_does_not_fit_the_document_is_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        _ = replace(example(), document="lake").words
    with pytest.raises(ValueError, match="zip"):
        _ = replace(example(), marks=example().marks[:-1]).words
