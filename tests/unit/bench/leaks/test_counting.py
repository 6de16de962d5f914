"""What counts as a leak: spans, words, function words and their intervals, on known releases."""

from __future__ import annotations

import numpy as np
import pytest

from bench.leaks import counting, report
from bench.leaks.corpora import OTHER_WORDS, Document, Span
from bench.leaks.counting import Rate
from bench.leaks.released import DRAW, NOISE, PASS, Fate


def fates(text: str, *changed: str, treatment: str = NOISE) -> list[Fate]:
    """Words at single spaces; those ``changed`` became another, the rest passed."""
    found, start = [], 0
    for word in text.split(" "):
        end = start + len(word)
        gone = word in changed
        after, how = ("other", treatment) if gone else (word, PASS)
        found.append(Fate(start, end, after, how, "NOUN"))
        start = end + 1
    return found


def counted(text: str, span: str, *changed: str, group: str = "organisations") -> counting.Tally:
    start = text.index(span)
    document = Document(text, (Span(start, start + len(span), group),))
    return counting.tally([document], [fates(text, *changed)])[0][group]


def shares(tally: counting.Tally) -> tuple[int, int, int, int]:
    return (*tally.spans.hits, *tally.spans.n, *tally.words.hits, *tally.words.n)


def test_a_span_came_through_if_all_its_words_did() -> None:
    assert shares(counted("at Acme Widgets now", "Acme Widgets")) == (1, 1, 2, 2)
    assert shares(counted("at Acme Widgets now", "Acme Widgets", "Acme")) == (0, 1, 1, 2)
    assert counted("at Acme Widgets now", "Acme Widgets").leaked == {"Acme Widgets": 1}


def test_function_words_and_punctuation_hide_and_save_nothing() -> None:
    whole = "the Bank of the West , Inc"
    assert shares(counted(whole, whole, "Bank", "West", "Inc")) == (0, 1, 0, 3)
    assert shares(counted(whole, whole, "of", "the")) == (1, 1, 3, 3)


def test_a_span_of_function_words_alone_counts() -> None:
    assert shares(counted("we moved to on last year", "on", group="places")) == (1, 1, 1, 1)


def test_a_word_that_only_touches_the_span_counts_and_case_does_not() -> None:
    document = Document("in NewYork", (Span(3, 6, "places"),))
    released = [Fate(0, 2, "in", PASS, ""), Fate(3, 10, "newyork", NOISE, "")]
    tally = counting.tally([document], [released])[0]["places"]
    assert shares(tally) == (1, 1, 1, 1)
    assert sum(tally.passed.hits) == 0  # it came back, and was not let through


def test_other_words_that_were_drawn_are_counted_with_their_cause() -> None:
    text = "the kettle of course"
    document = Document(text, tuple(Span(a, b, OTHER_WORDS) for a, b in [(0, 3), (4, 10)]))
    found, every = counting.tally([document], [fates(text, "kettle", treatment=DRAW)])
    figures = found[OTHER_WORDS].figures()
    assert (figures["drawn"]["hits"], figures["drawn"]["n"]) == (1, 2)
    assert figures["drawn_as"] == {"NOUN": 1}
    assert (every.hits, every.n) == ([3], [4])


def test_an_interval_knows_that_words_of_a_document_fall_together() -> None:
    together, apart = Rate(), Rate()
    for place in range(40):
        together.add(10 * (place % 2), 10)
    for place in range(400):
        apart.add(place % 2, 1)
    wide, narrow = (np.ptp(each.figures()["ci"]) for each in (together, apart))
    assert wide > 2 * narrow


def test_that_nothing_was_found_is_no_proof_that_there_is_nothing() -> None:
    one, many = Rate(), Rate()
    one.add(0, 500)
    one.add(0, 0)
    for _ in range(500):
        many.add(0, 1)
    assert one.figures()["ci"] == pytest.approx([0, 0.793], abs=1e-3)  # one document says little
    assert many.figures()["ci"] == pytest.approx([0, 0.0076], abs=1e-4)


def test_a_promise_is_judged_by_its_worst_level() -> None:
    def side(level: str, hits: int, *, promises: bool = True) -> dict[str, object]:
        rate = {"hits": hits, "n": 1000, "share": hits / 1000, "ci": [0, 1]}
        zero = {"hits": 0, "n": 1000, "share": 0.0, "ci": [0, 1]}
        groups = {"persons": {"spans": rate, "words": zero, "passed": zero}}
        return {"policy": "names", "level": level, "promises": promises, "groups": groups}

    rows = report.kept_promises([side("strong", 2), side("light", 11)])
    found = {(row["group"], row["what"]): row for row in rows}
    assert found["persons", "spans"]["level"] == "light"
    assert not found["persons", "spans"]["kept"]
    assert found["persons", "words"]["kept"]
    assert not report.kept_promises([side("light", 11, promises=False)])
