"""Jobs find the same wherever they run, and leave nothing out."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from bench.attacks.__main__ import _asked
from bench.attacks.harness import Budget
from bench.attacks.parts import ALL, Job, Kind, Part, Scope, plan
from bench.attacks.public import Remembering
from bench.attacks.run import DATA_SETS, Place, parts
from sottovoce.core.text.tagger import Tags
from tests.support.paths import MODELS
from tests.support.shared_data import shared_data

FEW = Budget(10, 5_000, (0, 0), (60, 2, 40), (0, 0), 0)


def test_everything_is_planned_once_at_every_level() -> None:
    jobs = plan(Scope(levels=("strong", "light")))
    assert len(jobs) == len(set(jobs))
    assert {job.kind for job in jobs} == {*get_args(Kind)}
    assert [job.level for job in jobs if job.kind == "tokens"] == ["strong", "light"]
    # Attacks on people need the clear text to compare with.
    assert [j.level for j in jobs if j.kind == "entities"] == ["clear", "strong", "light"]


def test_little_is_planned_where_little_is_asked() -> None:
    assert plan(Scope(("t2t.v1",), ("attack:0.3",), rest=False)) == [
        Job("words", "t2t.v1", "attack:0.3"),
        Job("clear text"),
    ]


def test_what_is_named_is_attacked_alone() -> None:
    none = {"mechanisms": None, "levels": None, "sentences": None}
    assert _asked(Namespace(quick=True, **none))[1] is ALL
    asked = {**none, "mechanisms": ("pct2t.v1",), "sentences": 9}
    budget, scope = _asked(Namespace(quick=True, **asked))
    assert scope == Scope(("pct2t.v1",), rest=False)
    assert budget.sentences == 9


def test_what_jobs_found_is_put_together_in_order() -> None:
    parts = [Part(rows=[{"n": 1}]), Part(clear=[{"n": 2}]), Part(rows=[{"n": 3}, {"n": 4}])]
    found = Part.of(parts)
    assert found.rows == [{"n": 1}, {"n": 3}, {"n": 4}]
    assert found.clear == [{"n": 2}]
    assert parts[0].rows == [{"n": 1}]  # as it was


def test_another_process_finds_the_same(bundle_folder: Path) -> None:
    data = shared_data(*DATA_SETS)
    place = Place(bundle_folder, MODELS, data, FEW)
    jobs = [Job("words", "pct2t.v1", "balanced")]
    (here,), (there,) = (parts(jobs, place, processes) for processes in (0, 1))
    assert here.rows == there.rows
    assert len(here.rows) > 4
    (mine,), (theirs,) = here.points, there.points
    assert mine.figures() == theirs.figures()


class Counting:
    """Tags by length; counts how often it is asked."""

    tagset, reach = ("A", "B"), 0
    asked = 0

    def tag(self, words: list[str]) -> Tags:
        self.asked += 1
        ids: NDArray[np.uint8] = np.array([len(word) % 2 for word in words], np.uint8)
        return Tags(ids, np.ones(len(words), np.float32))


def test_what_was_tagged_is_not_tagged_again() -> None:
    tagger = Counting()
    remembering = Remembering(tagger)  # type: ignore[arg-type]
    for _ in range(3):
        assert remembering.tag(["a", "bb"]).ids.tolist() == [1, 0]
    assert remembering.tag(["bb", "a"]).ids.tolist() == [0, 1]
    assert tagger.asked == 2
