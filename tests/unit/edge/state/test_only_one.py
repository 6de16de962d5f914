"""The lock on a state folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from sottovoce.core.errors import NotReady
from sottovoce.edge.state.database import is_held, only_one


def test_one_holds_it_and_who_looks_takes_it_from_nobody(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert not is_held(state)
    assert not state.exists()
    with only_one(state):
        assert is_held(state)
        with pytest.raises(NotReady), only_one(state):
            pass
        assert is_held(state)
    assert not is_held(state)
    with only_one(state):
        pass
