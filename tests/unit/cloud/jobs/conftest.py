"""Jobs over a database with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sottovoce.cloud.jobs import Jobs
from sottovoce.cloud.store import open_objects
from tests.support.clock import Clock
from tests.support.jobs import opened
from tests.support.stores import Store


@pytest.fixture
def jobs(tmp_path: Path, store: Store, clock: Clock, objects_url: str) -> Iterator[Jobs]:
    """The jobs of two tenants."""
    with opened(tmp_path, store, clock, open_objects(objects_url, tmp_path)) as jobs:
        yield jobs
