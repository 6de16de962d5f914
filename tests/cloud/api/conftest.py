"""What tests of a server share."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest


@pytest.fixture
def end() -> Iterator[threading.Event]:
    """Set by the test, or after it: calls that wait for it hold threads."""
    event = threading.Event()
    yield event
    event.set()
