"""Trainers that die and sleep at any moment: each job's effect is there once."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.live import postgres_server
from bench.scale.kills import Load, run
from bench.scale.trainers import Place


def test_every_effect_is_there_once_and_who_slept_is_refused(tmp_path: Path) -> None:
    load = Load(jobs=60, trainers=3, kills=8, sleeps=3)
    programs = postgres_server.found()
    if programs is None:
        pytest.skip(postgres_server.HINT)
    with postgres_server.running(programs) as server:
        found = run(Place(tmp_path, server.url(), 1.0), load)
    assert found["complaints"] == []
    assert (found["succeeded"], found["named"]) == (60, 60)
    assert (found["ended_twice"], found["examples_left"], found["seconds_too_many"]) == (0, 0, 0)
    assert found["claims"] > 60, "jobs were given out anew"
    assert found["refused"] + found["cut_off"] > 0
