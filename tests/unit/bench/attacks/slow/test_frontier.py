"""Known curves are put in the right order, and noise alone decides nothing."""

from __future__ import annotations

import numpy as np
import pytest

from bench.attacks.frontier import Point, against
from bench.attacks.interface import Floats
from bench.attacks.measures import Tally

SENTENCES, PHRASES, TRIALS, LENGTH = 250, 800, 6, 12
CLEAR: dict[str, Floats] = {
    "accuracy": np.full((1, PHRASES), 0.75, np.float32),
    "cosine": np.ones((1, SENTENCES), np.float32),
}


def point(mechanism: str, level: str, attack: float, gain: float, seed: int) -> Point:
    """Attackers recover ``attack``; utility is the square root of that, plus ``gain``."""
    random = np.random.default_rng(seed)
    judged = np.full(SENTENCES, LENGTH)
    right = random.binomial(LENGTH, attack, SENTENCES)
    kept = min(1.0, attack**0.5 + gain)
    accuracy = random.random((TRIALS, PHRASES)) < 0.5 + kept / 4
    cosine = np.clip(random.normal(kept, 0.1, (1, SENTENCES)), -1, 1)
    utility = {"accuracy": accuracy.astype(np.float32), "cosine": cosine.astype(np.float32)}
    return Point(mechanism, level, {"all": Tally(right, judged)}, utility)


def curve(gain: float = 0.0) -> list[Point]:
    levels = {"light": 0.8, "strong": 0.2, "balanced": 0.5}  # the order does not matter
    return [
        point("theirs", level, attack, gain, seed)
        for seed, (level, attack) in enumerate(levels.items())
    ]


@pytest.mark.parametrize(("gain", "verdict"), [(0.2, "ours"), (-0.2, "theirs")])
def test_more_at_the_same_attack_success_is_told_from_less(gain: float, verdict: str) -> None:
    rows = [*against(point("ours", "balanced", 0.45, gain, 9), curve(), CLEAR)]
    assert {row["utility"]: row["verdict"] for row in rows} == {
        "accuracy": verdict,
        "cosine": verdict,
    }
    for row in rows:
        assert row["at"] == pytest.approx(0.45, abs=0.04)  # four standard errors
        assert row["reached"]
        assert row["difference"] == pytest.approx(row["value"] - row["theirs"])
        assert row["ci"][0] < row["difference"] < row["ci"][1]
    cosine = rows[1]
    assert cosine["theirs"] == pytest.approx(0.45**0.5, abs=0.03)  # between two of its levels
    assert cosine["difference"] == pytest.approx(gain, abs=0.06)


def test_equal_curves_seldom_part() -> None:
    verdicts = [
        row["verdict"]
        for seed in range(12)
        for row in against(point("ours", "balanced", 0.5, 0, 100 + seed), curve(), CLEAR)
    ]
    # Two intervals of 95 % each: six false alarms of 24 have a probability of one in 700.
    assert len(verdicts) == 24
    assert sum(verdict != "undecided" for verdict in verdicts) < 6


def test_what_another_cannot_reach_it_does_not_win() -> None:
    strongest = [each for each in curve(0.2) if each.level != "strong"]
    rows = [*against(point("ours", "strong", 0.2, 0, 9), strongest, CLEAR)]
    assert [row["reached"] for row in rows] == [False, False]
    assert {row["verdict"] for row in rows} == {"out of reach"}
    # But to keep more at a lower success than it has at a higher one is a win all the same.
    rows = [*against(point("ours", "strong", 0.2, 0.55, 9), strongest, CLEAR)]
    assert {row["verdict"] for row in rows} == {"ours"}


def test_figures_come_with_intervals() -> None:
    found = point("ours", "strong", 0.25, 0, 3).figures()
    assert found["cosine"] == pytest.approx(0.5, abs=0.03)
    low, high = found["cosine_ci"]
    assert high - low == pytest.approx(2 * 1.96 * 0.1 / SENTENCES**0.5, rel=0.15)
