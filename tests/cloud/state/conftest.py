"""A clock that the test turns, for databases that are told the time."""

from __future__ import annotations

import pytest

from tests.support.clock import Clock


@pytest.fixture
def clock() -> Clock:
    """The database's."""
    return Clock()
