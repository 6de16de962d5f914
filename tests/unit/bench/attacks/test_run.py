"""Jobs find the same wherever they run, and leave nothing out."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from bench.attacks.harness import Budget
from bench.attacks.public import Remembering
from bench.attacks.run import DATA_SETS, Job, Kind, Place, Scope, parts, plan
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
