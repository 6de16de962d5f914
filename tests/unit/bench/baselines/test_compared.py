"""Other mechanisms are read against our curve, at their own attack success."""

from __future__ import annotations

import numpy as np
import pytest

from bench.attacks.frontier import Point
from bench.attacks.measures import Tally
from bench.baselines.__main__ import compared
from bench.baselines.run import CLEAR, OURS, Job

TEXTS, ITEMS, WORDS = 200, 1_000, 20


def point(job: Job, recovered: float, accuracy: float) -> Point:
    judged = np.full(TEXTS, WORDS)
    told = (np.arange(ITEMS) < ITEMS * accuracy).astype(np.float32)
    tally = Tally(np.full(TEXTS, round(WORDS * recovered)), judged)
    return Point(job.name, job.setting, {"all": tally}, {"accuracy": told[None]})


def found(*others: tuple[str, float, float]) -> dict[Job, Point]:
    """Return our curve, the line from (.2, .6) to (1, 1), and one point for each of ``others``."""
    ours = [(str(place), place, 0.5 + place / 2) for place in (0.2, 0.6)]
    jobs = {Job("trec", CLEAR, CLEAR): (1.0, 1.0)}
    jobs |= {Job("trec", OURS, name): figures for name, *figures in ours}
    jobs |= {Job("trec", name, "-"): figures for name, *figures in others}
    return {job: point(job, *figures) for job, figures in jobs.items()}


@pytest.mark.parametrize(
    ("recovered", "accuracy", "ours", "verdict"),
    [
        (0.4, 0.5, 0.7, "ours"),
        (0.4, 0.9, 0.7, "theirs"),
        (0.4, 0.7, 0.7, "undecided"),
        (0.8, 0.5, 0.9, "ours"),  # between our weakest level and clear text
        (0.1, 0.4, 0.6, "out of reach"),  # none of our levels gives so little
        (0.1, 0.9, 0.6, "theirs"),
    ],
)
def test_a_setting_is_read_against_our_curve(
    recovered: float, accuracy: float, ours: float, verdict: str
) -> None:
    (row,) = compared(found(("SanText", recovered, accuracy)))
    assert row["name"] == "SanText"
    assert row["at"] == pytest.approx(recovered)
    assert row["theirs"] == pytest.approx(accuracy)
    assert row["ours"] == pytest.approx(ours, abs=0.01)
    assert row["difference"] == pytest.approx(row["ours"] - row["theirs"])
    assert row["ci"][0] <= row["difference"] <= row["ci"][1]
    assert row["verdict"] == verdict


def test_tasks_are_compared_apart_and_ours_with_nothing() -> None:
    rows = found(("DPNR", 0.4, 0.5), ("CAPE", 0.4, 0.5))
    other = {job._replace(task="sst2"): each for job, each in found(("DPNR", 0.4, 0.5)).items()}
    names = [(row["task"], row["name"]) for row in compared(rows | other)]
    assert names == [("trec", "DPNR"), ("trec", "CAPE"), ("sst2", "DPNR")]
    assert not [*compared({job: each for job, each in rows.items() if job.name != OURS})]
