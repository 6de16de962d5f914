"""Policies at equal attack success: one attacker for all, and verdicts that noise does not make."""

from __future__ import annotations

import gzip
import json
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from bench.attacks.frontier import Point
from bench.attacks.measures import Tally
from bench.leaks.released import DRAW, NOISE, PASS, Fate
from bench.utility import policies, policy_tables
from bench.utility.policies import Cell, Place, studies, working
from bench.utility.policy_tables import CLEAR, Side, Study
from bench.utility.recovered import Attacker, Word, content_words, recovered, released_text
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.text.tagger import OnnxTagger

DOCUMENTS, SEEDS, WORDS = 400, 3, 8


def words(*pairs: str) -> list[Word]:
    """Parse "film>movie" into a true word and its release."""
    return [Word(*pair.split(">"), False) for pair in pairs]


def test_the_attacker_names_what_he_met_most_often() -> None:
    attacker = Attacker(words(*["film>movie"] * 3, "movie>movie", "cat>dog", *["cow>dog"] * 2))
    assert attacker.guess("movie") == "film"
    assert attacker.guess("dog") == "cow"
    assert attacker.guess("tree") == "tree"
    for once in (words("film>movie"), words(*["film>movie"] * 2, "movie>movie")):
        assert Attacker(once).guess("movie") == "movie"  # of equals the released one, which counts
        assert Attacker(once[::-1]).guess("movie") == "movie"  # as met behind itself once more


def test_what_passes_is_recovered_whatever_is_guessed() -> None:
    attacker = Attacker(words(*["film>movie"] * 2))
    judged = [
        *words("film>movie", "movie>movie", "oak>oak", "oak>elm"),
        Word("movie", "movie", True),
    ]
    assert [recovered(each, attacker) for each in judged] == [True, False, True, False, True]


def test_content_words_are_those_of_the_true_text(bundle_folder: Path) -> None:
    tagger = OnnxTagger.load(Bundle.open(bundle_folder).tagger_folder)
    text = "The old kettle broke , and Berlin slowly laughed ."
    fates, at = [], 0
    for word in text.split():
        treatment = {"old": PASS, "Berlin": DRAW}.get(word, NOISE)
        after = {"kettle": "pan", "and": "table"}.get(word, word)
        fates.append(Fate(at, at + len(word), after, treatment, "ADJ"))
        at += len(word) + 1
    found = content_words(text, fates, tagger)
    assert " ".join(word.true for word in found) == "old kettle broke berlin slowly laughed"
    assert found[0] == Word("old", "old", True)
    assert found[1] == Word("kettle", "pan", False)
    assert found[3] == Word("berlin", "berlin", False, True)
    assert content_words("", (), tagger) == []
    assert released_text(text, fates) == "The old pan broke , table Berlin slowly laughed ."


def point(name: str, attack: float, accuracy: float, seed: int) -> Point:
    random = np.random.default_rng(seed)
    right = (random.random((SEEDS, DOCUMENTS)) < accuracy).astype(np.float32)
    hits = random.binomial(WORDS, attack, DOCUMENTS)
    return Point(name, "", {"all": Tally(hits, np.full(DOCUMENTS, WORDS))}, {"accuracy": right})


def study(gains: tuple[float, float, float]) -> Study:
    """One policy keeps as much as is recovered, `content` ``gains`` more."""
    points = {Side(CLEAR, ""): Point(CLEAR, "", {}, point("", 1, 0.95, 0).utility)}
    for at, (level, gain) in enumerate(zip(("strong", "balanced", "light"), gains, strict=True)):
        before, now = Side("papers", level), Side("content", level)
        attack = 0.5 + 0.15 * at
        points[before] = point(str(before), attack, attack, 10 + at)
        points[now] = point(str(now), attack + 0.03, attack + 0.03 + gain, 20 + at)
    return Study("sst2", "head", points)


# Each side's accuracy has a standard error of .014: .12 is six of a difference.
@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ((0.0, 0.0, 0.0), "on"),
        ((0.12, 0.0, -0.12), "crosses"),
    ],
)
def test_a_curve_lies_where_its_levels_do(gains: tuple[float, float, float], verdict: str) -> None:
    made = study(gains)
    (found,) = made.verdicts([*made.comparisons()])
    assert (found["of"], found["against"]) == ("content", "papers")
    assert found["verdict"] == verdict


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ([], "on"),
        ([("content", "ours")], "above"),
        ([("content", "theirs")], "below"),
        ([("papers", "ours")], "below"),
        ([("papers", "theirs"), ("content", "out of reach")], "above"),
        ([("content", "ours"), ("papers", "ours")], "crosses"),
    ],
)
def test_each_side_may_win_at_its_own_levels(told: list[tuple[str, str]], found: str) -> None:
    rows = [{"ours": "content", "verdict": "undecided"}]
    rows += [{"ours": side, "verdict": verdict} for side, verdict in told]
    assert policy_tables.verdict(rows) == found


@pytest.mark.parametrize(("wrong", "verdict"), [(0, "within"), (1, "open"), (60, "not within")])
def test_names_are_near_clear_text_only_beyond_the_interval(wrong: int, verdict: str) -> None:
    clear = np.ones((SEEDS, DOCUMENTS), np.float32)
    hidden = clear.copy()
    hidden[:, : 4 * wrong : 4] = 0  # one of 400 documents: within a point itself, its interval too
    hidden[: SEEDS if wrong > 1 else 1, 1 : 12 * wrong : 2] = 0
    names = Point("names", "balanced", {"all": Tally(clear[0], clear[0])}, {"accuracy": hidden})
    points = {
        Side(CLEAR, ""): Point(CLEAR, "", {}, {"accuracy": clear}),
        Side("names", "balanced"): names,
    }
    (found,) = Study("sst2", "head", points).verdicts([])
    assert found["verdict"] == verdict
    assert found["difference"] == pytest.approx(hidden.mean() - 1)


def test_releases_are_learnt_from_and_attacked_once(
    bundle_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"a {word} film\t1" for word in ("warm", "funny", "good", "great")]
    texts += [f"a {word} film\t0" for word in ("dull", "empty", "bad", "cold")]
    (tmp_path / "sst2").mkdir()
    for name, times in (("train", 5), ("dev", 2)):
        with gzip.open(tmp_path / "sst2" / f"{name}.tsv.gz", "wt", encoding="utf-8") as file:
            file.write("\n".join(("text\tlabel", *texts * times)))
    monkeypatch.setitem(policies.TRAIN, "sst2", 24)
    place = Place(bundle_folder, tmp_path, tmp_path / "cache", ("head",))
    hidden = Side("content", "strong")
    cells = [Cell("sst2", side, 0) for side in (Side(CLEAR, ""), hidden)]
    work = working(place)
    for cell in cells:
        work(cell)
    kept = {file: file.stat().st_mtime_ns for file in place.cache.rglob("*.json")}
    assert len(kept) == 4  # two releases, two heads
    for cell in cells:
        work(cell)
    assert {file: file.stat().st_mtime_ns for file in place.cache.rglob("*.json")} == kept
    (found,) = studies(place, cells)
    clear, row = found.rows()
    assert clear["accuracy"] == clear["all"] == 1
    assert 0 < row["known"] <= 1
    released = json.loads(place.file(cells[1], "released").read_text())["texts"]
    assert len(released) == 24 + 16
    assert all(text.startswith("a ") for text in released)
    assert sum("film" in text for text in released) < 40  # at `strong`, under whatever key
    result = policy_tables.figures([found])
    shown = Console(file=StringIO(), width=150, record=True)
    shown.print(*policy_tables.show(result))
    assert f"{row['all']:.3f}" in shown.export_text()
