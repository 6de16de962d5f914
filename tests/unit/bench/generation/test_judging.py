"""Scores are sacrebleu's own, and intervals are over entries."""

from __future__ import annotations

import pytest

from bench.generation.webnlg import Entry

sacrebleu = pytest.importorskip("sacrebleu", reason="run `make install`")
from bench.generation.judging import Judge, figure  # noqa: E402 - needs it

ENTRIES = [
    Entry("", ("The bridge is in Aarhus.", "Aarhus has the bridge."), ("Aarhus",)),
    Entry("", ("Ramona Sitwell lives in Lyon with 3 cats.",), ("Ramona Sitwell", "Lyon")),
    Entry("", ("It was built in 1859.",), ("1859",)),
]
ANSWERS = [
    "Aarhus has the bridge.",
    "Ramona Sitwell lives in Paris with 3 cats.",
    "It was built in 1860.",
]


def test_scores_are_those_of_sacrebleu_on_all_references() -> None:
    found = Judge(ENTRIES).scores(ANSWERS)
    references = [[e.texts[0] for e in ENTRIES], [ENTRIES[0].texts[1], None, None]]
    assert found["bleu"][0] == pytest.approx(
        sacrebleu.corpus_bleu(ANSWERS, references).score, abs=1e-9
    )
    assert found["chrf"][0] == pytest.approx(
        sacrebleu.corpus_chrf(ANSWERS, references).score, abs=1e-9
    )
    assert found["entities"][0] == pytest.approx(2 / 4)
    assert 0 < found["bleu"][0] < 100


def test_what_people_wrote_is_perfect_in_every_resample() -> None:
    found = Judge(ENTRIES).scores([entry.texts[-1] for entry in ENTRIES])
    assert figure(found["bleu"])["interval"] == pytest.approx([100, 100])
    assert figure(found["chrf"])["mean"] == pytest.approx(100)


def test_intervals_hold_the_figure_and_compare_the_same_entries() -> None:
    judge = Judge(ENTRIES * 10)
    found = judge.scores(ANSWERS * 10)
    said = figure(found["chrf"])
    assert said["interval"][0] < said["mean"] < said["interval"][1]
    worse = judge.scores([answer.replace("Aarhus", "Lyon") for answer in ANSWERS * 10])
    apart = figure(found["chrf"] - worse["chrf"])
    # Of the same resamples: hardly wider than what the names themselves make.
    assert apart["interval"][0] > 0
    assert apart["interval"][1] - apart["interval"][0] < 20
