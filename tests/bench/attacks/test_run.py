"""Jobs find the same wherever they run, and leave nothing out."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.attacks.__main__ import _asked
from bench.attacks.harness import Budget
from bench.attacks.public import Remembering
from bench.attacks.run import ALL, DATA_SETS, Job, Part, Place, Scope, failed, parts, plan
from sottovoce.core.text.tagger import Tags
from tests.support.paths import MODELS
from tests.support.shared_data import shared_data

FEW = Budget(10, 5_000, (60, 2, 40))


def test_all_that_is_asked_is_planned_once_and_clear_text_with_it() -> None:
    jobs = plan(Scope(levels=("strong", "light")))
    assert len(jobs) == len(set(jobs)) == 7
    assert plan(Scope(("t2t.v1",), ("attack:0.3",))) == [Job("t2t.v1", "attack:0.3"), Job()]


def test_what_is_named_is_attacked_alone() -> None:
    none = {"mechanisms": None, "levels": None, "sentences": None}
    assert _asked(Namespace(quick=True, **none))[1] is ALL
    asked = {**none, "mechanisms": ("pct2t.v1",), "sentences": 9}
    budget, scope = _asked(Namespace(quick=True, **asked))
    assert scope == Scope(("pct2t.v1",))
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
    jobs = [Job("pct2t.v1", "balanced")]
    (here,), (there,) = (parts(jobs, place, processes) for processes in (0, 1))
    assert here == there
    assert {row["attack"] for row in here.rows} == {"nearest", "MAP", "MAP in context"}
    assert {row["sees"] for row in here.rows} == {"word", "vector"}


def test_attacks_are_shown_to_work_on_clear_text(bundle_folder: Path) -> None:
    place = Place(bundle_folder, MODELS, shared_data(*DATA_SETS), FEW)
    (found,) = parts([Job()], place, 0)
    assert {row["sees"] for row in found.clear} == {"word", "vector"}
    assert not failed(found.clear)
    assert failed([{**found.clear[0], "success": 0.5}])
    assert found.costs[0]["cosine"] > 0.999


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
