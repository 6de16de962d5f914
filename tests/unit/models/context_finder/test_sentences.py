"""Made sentences are marked exactly where a name was put."""

from __future__ import annotations

import numpy as np
import pytest

from sottovoce.core.text.context_finder import BREAK
from sottovoce.core.text.names import KINDS
from sottovoce.core.text.words import split
from sottovoce.models.context_finder.sentences import (
    Sentences,
    cut,
    own_texts,
    read_written,
    weakened,
)
from sottovoce.models.names_data import ANY, NONE, SLOT, Lists, Marked, Mentions

LISTS = Lists(("Anna",), ("Marsh",), ("Rome",), ("Freedonia",), ("Rue Longue",), ("Acme",))
PLACE = 1 << KINDS.index("PLACE")
NAMES = PLACE | sum(1 << KINDS.index(kind) for kind in ("PERSON", "ORGANISATION"))


def sentences(seed: int = 0) -> Sentences:
    random = np.random.default_rng(seed)
    words = ["river", "lamp", "stone"]
    return Sentences(Mentions(LISTS, {"lamp"}.__contains__, words, random), words, random)


def named(sentence: Marked, names: int = NAMES) -> bool:
    return any(not bits & ~names for bits in sentence.allowed)


def test_a_request_names_nobody_but_countries() -> None:
    source = sentences()
    drawn = [source.request() for _ in range(300)]
    assert not any(named(each, NAMES & ~PLACE) for each in drawn)
    places = {
        word.text
        for each in drawn
        for word, bits in zip(each.words, each.allowed, strict=True)
        if bits == PLACE
    }
    assert places <= {"Freedonia", "FREEDONIA"}


def test_a_mention_names_somebody() -> None:
    source = sentences()
    drawn = [source.mention() for _ in range(1_000)]
    joined = [any({"@", "\\"} & {*word.text} for word in each.words) for each in drawn]
    assert all(named(each) for each, other in zip(drawn, joined, strict=True) if not other)
    assert np.mean(joined) < 0.05  # "@Josh" is one word, which the finder never reads


def test_records_come_with_and_without_names() -> None:
    drawn = sentences()
    found = [named(drawn.record()) for _ in range(200)]
    assert 0.4 < np.mean(found) < 0.9


def test_every_slot_is_filled() -> None:
    drawn = sentences()
    for make in (drawn.request, drawn.mention, drawn.record):
        for _ in range(200):
            text = " ".join(word.text for word in make().words)
            assert not SLOT.search(text.replace("{ ", "{")), text


def test_the_same_seed_draws_the_same() -> None:
    assert [sentences(4).record() for _ in range(5)] == [sentences(4).record() for _ in range(5)]


def test_words_are_cut_with_line_breaks_and_marks() -> None:
    found = cut([("Name: ", ""), ("Rose Long", "PERSON"), ("\nuse ", ""), ("Helm", "passes")])
    texts = [word.text for word in found.words]
    assert texts == ["Name", ":", "Rose", "Long", BREAK, "use", "Helm"]
    other = 1 << KINDS.index("OTHER")
    assert found.allowed == (NONE, NONE, 2, 2, NONE, NONE, NONE | other)


@pytest.mark.parametrize(("text", "open_"), [("so", True), ("So", False), ("will", False)])
def test_small_function_words_are_left_open(text: str, open_: bool) -> None:
    found = weakened(Marked(tuple(split(text)), (2,), ""))
    assert found.allowed == ((ANY,) if open_ else (2,))


def test_own_texts_are_there_once_each() -> None:
    assert sum(1 for _ in own_texts()) > 1_000


def test_written_texts_are_marked_as_their_signs_say() -> None:
    texts = read_written()
    assert len({tuple(word.text for word in text.words) for text in texts}) > 0.99 * len(texts)
    spans = {"PERSON": 0, "PLACE": 0, "ORGANISATION": 0}
    for text in texts:
        assert not any(sign in word.text for word in text.words for sign in "⟦⟧")
        for first, end, kind in text.spans:
            assert first < end <= len(text.words)
            bits = 1 << KINDS.index(kind)
            assert all(each in (bits, ANY) for each in text.allowed[first:end])
            spans[kind] += 1
    assert min(spans.values()) > 1_000
    nameless = sum(not text.spans for text in texts)
    assert 0.3 < nameless / len(texts) < 0.7
