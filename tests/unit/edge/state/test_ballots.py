"""A vote under way survives, sealed, and is counted once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sottovoce.core.errors import DataLoss, NotReady
from sottovoce.edge.state.device_key import Seal
from sottovoce.edge.tasks import distill
from sottovoce.edge.tasks.distill import Ballot, Ballots

WHAT, OTHER = b"a" * 32, b"b" * 32


@pytest.fixture
def kept(tmp_path: Path) -> Ballots:
    return Ballots(tmp_path, Seal(b"k" * 32))


def test_what_is_kept_is_found_by_its_name_alone(kept: Ballots, tmp_path: Path) -> None:
    ballot = Ballot([[0, 2], [1]], {0: [1, -1], 1: [0, 0]})
    with kept.alone():
        assert kept.find(WHAT) is None
        kept.keep(WHAT, ballot)
        assert kept.find(WHAT) == ballot
        assert kept.find(OTHER) is None
        ballot.answers = {1: 0}
        kept.keep(WHAT, ballot)
        again = Ballots(tmp_path, Seal(b"k" * 32)).find(WHAT)
        assert again == ballot
        kept.forget(WHAT)
        kept.forget(WHAT)
        assert kept.find(WHAT) is None


def test_it_is_sealed_and_for_its_owner(kept: Ballots, tmp_path: Path) -> None:
    with kept.alone():
        kept.keep(WHAT, Ballot([[12_345]], {}))
    file = tmp_path / "votes" / WHAT.hex()[:32]
    assert b"12345" not in file.read_bytes()
    assert file.stat().st_mode & 0o077 == 0
    assert (tmp_path / "votes").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"{}"])
def test_what_was_altered_is_refused(kept: Ballots, tmp_path: Path, damage: object) -> None:
    with kept.alone():
        kept.keep(WHAT, Ballot([[0]], {}))
        file = tmp_path / "votes" / WHAT.hex()[:32]
        file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
        with pytest.raises(DataLoss, match="delete the file"):
            kept.find(WHAT)


def test_one_at_a_time(kept: Ballots) -> None:
    with kept.alone(), pytest.raises(NotReady, match="another vote"), kept.alone():
        pass
    with kept.alone():
        pass


def test_what_nobody_went_on_with_is_forgotten(kept: Ballots, tmp_path: Path) -> None:
    with kept.alone():
        kept.keep(WHAT, Ballot([[0]], {}))
        kept.keep(OTHER, Ballot([[1]], {}))
    old = tmp_path / "votes" / WHAT.hex()[:32]
    past = old.stat().st_mtime - (distill._DAYS + 1) * 86_400
    os.utime(old, (past, past))
    with kept.alone():
        assert kept.find(WHAT) is None
        assert kept.find(OTHER) is not None
