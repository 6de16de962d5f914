"""Parts that are cut into pieces and tried at once come out as if one after the other."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from soak.campaign import parts
from soak.campaign.parts import PARTS, run
from soak.campaign.pool import Piece, pieces, together
from soak.campaign.tally import Tally

SEED = "pool"


@pytest.mark.parametrize("share", [0.001, 0.03, 0.5, 1.0, 1.5])
@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if not part.minutes])
def test_every_trial_is_in_one_piece(name: str, share: float) -> None:
    cut = pieces(name, share, None, None)
    numbers = [number for piece in cut for number in piece.numbers()]
    assert numbers == list(range(max(1, round(PARTS[name].full * share))))
    assert len(cut) <= PARTS[name].pieces
    assert all(piece.trials for piece in cut)


def test_one_trial_is_one_piece_and_time_is_not_cut() -> None:
    assert pieces("network", 1.0, None, 7) == [Piece("network", range(7, 8))]
    assert pieces("network", 1.0, 2.5, None) == [Piece("network", minutes=2.5)]
    assert pieces("soak", 0.5, None, None) == [Piece("soak", minutes=30)]
    assert next(Piece("soak", minutes=0).numbers()) == 0


def test_pieces_at_once_come_to_the_same(tmp_path: Path) -> None:
    whole = run("damage", tmp_path, SEED, range(40)).to_dict()
    halves = [Piece("damage", range(25)), Piece("damage", range(25, 40))]
    found = together(halves, SEED, 2)
    assert [*found] == ["damage"]
    assert found["damage"].processor > 0
    told = found["damage"].to_dict()
    for took in ("seconds", "processor"):
        del whole[took], told[took]
    assert told == whole
    assert told["count"] == 40


def test_a_part_that_ends_of_itself_keeps_what_it_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def short_lived(folder: Path, tally: Tally, seed: str, trials: Iterable[int]) -> None:
        for trial in trials:
            if trial == 12:
                raise OSError("no room for the thirteenth", threading.RLock())  # not to be pickled
            tally.ended("well")

    part = replace(PARTS["damage"], run=short_lived)
    monkeypatch.setattr(parts, "PARTS", {"damage": part})
    found = run("damage", tmp_path, SEED, range(10, 20))
    assert (found.ends, found.faults["unexplained"]) == (Counter(well=2), 1)
    assert "no room for the thirteenth" in found.findings[0]
    assert found.findings[0].endswith("--trial 12")
    pickle.dumps(found)


def test_tallies_are_merged() -> None:
    first = Tally("kills", "again {}", 2, Counter(a=2), figures={"start": 3, "reached": 1})
    second = Tally("kills", "again {}", 1, Counter(b=1), figures={"start": 2, "more": 5})
    second.fault("lost", 4, "it is gone")
    both = Tally.merged([first, second])
    assert (both.count, both.ends) == (4, Counter(a=2, b=1))
    assert (both.faults["lost"], both.findings) == (1, ["lost: it is gone; again: again 4"])
    assert both.figures == {"start": 3, "reached": 1, "more": 5}
