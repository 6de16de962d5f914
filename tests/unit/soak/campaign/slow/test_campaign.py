"""The campaign in short: the same parts, fewer trials, one seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.campaign.parts import PARTS, run
from soak.campaign.tally import FAULTS

SEED = "short"
MOST_LOGGED = 2.0
"""Bytes a call. Memory is judged over the whole campaign alone: what a daemon loads when it is
first asked for it is more than what so few calls could leave behind."""


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if part.short])
def test_nothing_is_lost_leaked_crossed_or_unexplained(name: str, tmp_path: Path) -> None:
    part = PARTS[name]
    if lacking := part.missing():
        pytest.skip(lacking)
    tally = run(name, tmp_path, SEED, range(part.short))
    assert tally.findings == []
    assert tally.count == part.short
    assert sum(tally.faults[kind] for kind in FAULTS) == 0
    for figure, value in tally.figures.items():
        if figure.startswith("log bytes a call"):
            assert value < MOST_LOGGED, figure


def test_a_trial_is_the_same_whenever_it_is_shown_again(tmp_path: Path) -> None:
    tallies = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        tallies.append(run("damage", folder, SEED, range(40, 60)).to_dict())
    assert tallies[0] == tallies[1]
    assert sum(tallies[0]["ends"].values()) == 20
